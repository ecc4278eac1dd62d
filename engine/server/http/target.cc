#include "engine/server/http/target.h"

#include <algorithm>
#include <charconv>

namespace serval::server {
namespace {

bool begins_with(std::string_view text, std::string_view lower_case) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return text.size() >= lower_case.size() &&
         std::ranges::equal(text.substr(0, lower_case.size()), lower_case,
                            [&](char a, char b) { return lower(a) == b; });
}

// The part of a URL after scheme and host; `target` itself if it is not a URL.
std::string_view without_host(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!begins_with(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = target.find_first_of("/?");
    return end == std::string_view::npos ? std::string_view() : target.substr(end);
  }
  return target;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  constexpr size_t kDigits = 2;
  constexpr int kBase = 16;
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      unsigned char byte = 0;
      const std::string_view digits = text.substr(i + 1, kDigits);
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, kBase);
      if (digits.size() < kDigits || error != std::errc() || end != digits.data() + kDigits)
        return std::nullopt;
      c = static_cast<char>(byte);
      i += kDigits;
    }
    if (c == '\0') return std::nullopt;
    decoded += c;
  }
  return decoded;
}

}  // namespace

std::optional<Target> read_target(std::string_view target) {
  if (target == "*") return Target{.path = "*", .query = {}};
  const std::string_view rest = without_host(target);
  const bool is_url = rest.data() != target.data() || rest.size() != target.size();
  const size_t mark = std::min(rest.find('?'), rest.size());
  const auto path = percent_decoded(rest.substr(0, mark));
  if (!path || (!is_url && !path->starts_with('/'))) return std::nullopt;
  return Target{.path = path->empty() ? "/" : *path,
                .query = std::string(rest.substr(std::min(mark + 1, rest.size())))};
}

}  // namespace serval::server
