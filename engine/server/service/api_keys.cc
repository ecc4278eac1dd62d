#include "engine/server/service/api_keys.h"

#include <algorithm>
#include <fstream>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::server {
namespace {

constexpr std::string_view kScheme = "Bearer ";
constexpr size_t kMostKeyBytes = 512;
const std::string kAnonymous = "anonymous";

[[noreturn]] void refuse(const std::string& line) {
  throw Error(ErrorKind::kUsage, line);
}

bool is_key(std::string_view text) {
  constexpr char kFirst = '!', kLast = '~';  // ASCII's printable characters
  return !text.empty() && text.size() <= kMostKeyBytes &&
         std::ranges::all_of(text, [](char c) { return c >= kFirst && c <= kLast; });
}

bool is_scheme(std::string_view text) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return text.size() == kScheme.size() &&
         std::ranges::equal(text, kScheme, [&](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

void ApiKeys::add(Key key) {
  if (!is_key(key.key))
    refuse(fmt::format("api key {}: expected 1 to {} printable ASCII characters without spaces", key.name,
                       kMostKeyBytes));
  keys_.push_back(std::move(key));
}

ApiKeys ApiKeys::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) refuse(path.string() + ": cannot be read");
  ApiKeys keys;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.find(':');
    const bool named = colon != std::string::npos;
    const std::string name = named ? line.substr(0, colon) : fmt::format("key-{}", keys.size() + 1);
    const std::string key = named ? line.substr(colon + 1) : line;
    if (!is_key(name) || !is_key(key))
      refuse(
          fmt::format("{}: line {}: expected NAME:KEY or KEY, in printable ASCII characters without spaces",
                      path.string(), number));
    keys.add({name, key});
  }
  if (keys.empty()) refuse(path.string() + ": no key; expected a line NAME:KEY or KEY for each key");
  return keys;
}

const std::string* ApiKeys::name_of(std::string_view authorization) const {
  if (keys_.empty()) return &kAnonymous;
  if (!is_scheme(authorization.substr(0, kScheme.size()))) return nullptr;
  return name_of_key(authorization.substr(kScheme.size()));
}

// Compares with all keys, so that the time does not show which key matches.
const std::string* ApiKeys::name_of_key(std::string_view given) const {
  if (keys_.empty()) return &kAnonymous;
  const std::string* name = nullptr;
  for (const Key& key : keys_) {
    if (equal_in_constant_time(given, key.key)) name = &key.name;
  }
  return name;
}

}  // namespace serval::server
