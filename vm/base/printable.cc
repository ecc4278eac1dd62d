#include "vm/base/printable.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <optional>

namespace serval {
namespace {

struct Range {
  uint32_t first, last;
};

// Unicode 16: general categories Cc, Zl and Zp, and of Cf those that a terminal or an editor acts on.
constexpr Range kEscaped[] = {{0x00, 0x1F},     {0x7F, 0x9F},      {0x061C, 0x061C}, {0x180E, 0x180E},
                              {0x200B, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F}, {0xFEFF, 0xFEFF},
                              {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};

constexpr uint32_t kOneByte = 0x80;

bool is_escaped(uint32_t code) {
  return std::ranges::any_of(kEscaped, [code](Range r) { return code >= r.first && code <= r.last; });
}

struct Character {
  uint32_t code;
  size_t bytes;
};

// The first character of `text`; none if it is not valid UTF-8.
std::optional<Character> first_of(std::string_view text) {
  constexpr struct {
    unsigned char mask, lead;
    uint32_t least;
  } kForms[] = {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
  constexpr unsigned char kContinuationMask = 0xC0, kContinuation = 0x80, kPayload = 0x3F;
  constexpr int kPayloadBits = 6;
  const auto byte_at = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t form = 0; form < std::size(kForms); ++form) {
    const auto& [mask, lead, least] = kForms[form];
    if ((byte_at(0) & mask) != lead) continue;
    const size_t bytes = form + 1;
    if (text.size() < bytes) return std::nullopt;
    uint32_t code = byte_at(0) & static_cast<unsigned char>(~mask);
    for (size_t i = 1; i < bytes; ++i) {
      if ((byte_at(i) & kContinuationMask) != kContinuation) return std::nullopt;
      code = code << kPayloadBits | (byte_at(i) & kPayload);
    }
    constexpr uint32_t kSurrogates = 0xD800, kAfterSurrogates = 0xE000, kLast = 0x10FFFF;
    const bool is_character =
        code >= least && code <= kLast && (code < kSurrogates || code >= kAfterSurrogates);
    return is_character ? std::optional(Character{code, bytes}) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto character = first_of(text);
    const size_t bytes = character ? character->bytes : 1;
    if (!character || (is_escaped(character->code) && character->code < kOneByte))
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    else if (is_escaped(character->code))
      out += fmt::format("\\u{:04x}", character->code);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace serval
