// Lengths of texts in characters, as text offsets count them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace serval::server {

// Code points that begin in `utf8`.
inline size_t count_characters(std::string_view utf8) {
  constexpr unsigned char kKind = 0xC0, kContinuation = 0x80;
  return static_cast<size_t>(std::ranges::count_if(
      utf8, [](char c) { return (static_cast<unsigned char>(c) & kKind) != kContinuation; }));
}

}  // namespace serval::server
