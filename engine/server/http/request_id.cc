#include "engine/server/http/request_id.h"

#include <algorithm>
#include <random>

#include "fmt/format.h"

namespace serval::server {

bool is_request_id(std::string_view text) {
  constexpr size_t kMostBytes = 128;
  constexpr char kFirst = '!', kLast = '~';
  return !text.empty() && text.size() <= kMostBytes &&
         std::ranges::all_of(text, [](char c) { return c >= kFirst && c <= kLast; });
}

std::string new_request_id(std::string_view prefix) {
  static thread_local std::mt19937_64 random{std::random_device()()};
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

}  // namespace serval::server
