#include "tests/fuzz/fuzz_target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace serval::fuzz {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "requirement failed: %s\n", what);
  std::abort();
}

void require_one_line(const char* message) {
  const std::string_view line(message);
  const auto controls = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  if (!line.empty() && std::none_of(line.begin(), line.end(), controls)) return;
  std::fprintf(stderr, "message: %s\n", message);
  require(false, "an error message is one printable line");
}

std::vector<std::string_view> split(std::string_view input, size_t count) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const size_t end = input.find('\0');
    if (end == input.npos) break;
    parts.push_back(input.substr(0, end));
    input.remove_prefix(end + 1);
  }
  parts.push_back(input);
  return parts;
}

}  // namespace serval::fuzz
