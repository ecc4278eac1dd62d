#include "models/tokenizer/unicode.h"

#include "models/tokenizer/regex.h"
#include "models/tokenizer/utf8.h"

namespace serval {
namespace {

constexpr unsigned kContinuationMask = 0xC0, kContinuationBits = 0x80;
constexpr unsigned kContinuationPayload = 0x3F;
constexpr int kPayloadBits = 6;
constexpr unsigned kLeadPayload[] = {0, 0x7F, 0x1F, 0x0F, 0x07};  // by the character's length

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & kContinuationMask) == kContinuationBits;
}

}  // namespace

std::string_view first_character(std::string_view text) {
  return text.substr(0, utf8_first(text).bytes);
}

std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return text.substr(begin);
}

std::uint32_t code_point(std::string_view character) {
  std::uint32_t value = static_cast<unsigned char>(character[0]) & kLeadPayload[character.size()];
  for (const char c : character.substr(1)) {
    value = value << kPayloadBits | (static_cast<unsigned char>(c) & kContinuationPayload);
  }
  return value;
}

bool append_utf8(std::uint32_t code_point, std::string* out) {
  constexpr std::uint32_t kFirstOf[] = {0, 0, 0x80, 0x800, 0x10000, 0x110000};  // by length
  constexpr unsigned kLeadBits[] = {0, 0, 0xC0, 0xE0, 0xF0};
  constexpr std::uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF, kLast = 0x10FFFF;
  if (code_point > kLast || (code_point >= kFirstSurrogate && code_point <= kLastSurrogate)) return false;
  int bytes = 1;
  while (code_point >= kFirstOf[bytes + 1]) ++bytes;
  *out += static_cast<char>(kLeadBits[bytes] | code_point >> (kPayloadBits * (bytes - 1)));
  for (int left = bytes - 2; left >= 0; --left) {
    *out +=
        static_cast<char>(kContinuationBits | (code_point >> (kPayloadBits * left) & kContinuationPayload));
  }
  return true;
}

bool is_white_space(std::string_view character) {
  const std::uint32_t c = code_point(character);
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word_character(std::string_view character) {
  static const Regex kWord(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}])", "word character");
  return !kWord.find_all(character).empty();
}

}  // namespace serval
