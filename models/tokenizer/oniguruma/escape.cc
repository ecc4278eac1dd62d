#include "models/tokenizer/oniguruma/escape.h"

#include <fmt/format.h>
#include <string>
#include <utility>

#include "models/tokenizer/oniguruma/properties.h"
#include "vm/base/json_file.h"

namespace serval::oniguruma {
namespace {

constexpr std::uint32_t kFirstNonAscii = 0x80, kLastCharacter = 0x10FFFF;
constexpr std::uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

bool is_letter_or_digit(std::uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::uint32_t checked(const Cursor& cursor, std::size_t begin, std::uint32_t character) {
  if (character > kLastCharacter || (character >= kFirstSurrogate && character <= kLastSurrogate))
    cursor.refuse(begin, fmt::format("{:X} is not a character", character));
  return character;
}

// Call after \x or \u.
std::uint32_t take_code(Cursor& cursor, std::size_t begin, char kind) {
  constexpr int kMaxDigits = 8, kUnicodeDigits = 4, kByteDigits = 2;
  if (kind == 'u') return checked(cursor, begin, cursor.take_hex(kUnicodeDigits, kUnicodeDigits));
  if (cursor.take("{")) {
    const std::uint32_t character = cursor.take_hex(1, kMaxDigits);
    if (!cursor.take("}")) cursor.refuse(begin, "\\x{ has no '}'");
    return checked(cursor, begin, character);
  }
  const std::uint32_t byte = cursor.take_hex(kByteDigits, kByteDigits);
  if (byte >= kFirstNonAscii)
    cursor.refuse(begin, "\\x80 to \\xFF (bytes, not characters) are not supported");
  return byte;
}

// Call after \p or \P.
CharacterSet take_property(Cursor& cursor, std::size_t begin, bool complement) {
  if (!cursor.take("{")) cursor.refuse(begin, "\\p without '{' is not supported");
  std::string_view name = cursor.take_until('}', "\\p{");
  if (name.starts_with('^')) {
    complement = !complement;
    name.remove_prefix(1);
  }
  const auto set = property(name);
  if (!set) cursor.refuse(begin, fmt::format("the property {} is not supported", in_quotes(name)));
  return complement ? complement_of(*set) : *set;
}

}  // namespace

std::optional<std::uint32_t> take_character_escape(Cursor& cursor) {
  constexpr std::pair<char, char> kControls[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'},  {'f', '\f'},
                                                 {'v', '\v'}, {'a', '\a'}, {'e', '\x1B'}};
  const std::size_t begin = cursor.at();
  const std::uint32_t character = cursor.take_character();
  if (!is_letter_or_digit(character)) return character;
  if (character == 'x' || character == 'u') return take_code(cursor, begin, static_cast<char>(character));
  for (const auto& [letter, control] : kControls) {
    if (character == static_cast<std::uint32_t>(letter)) return static_cast<std::uint32_t>(control);
  }
  cursor.back_to(begin);
  return std::nullopt;
}

std::optional<CharacterSet> take_set_escape(Cursor& cursor, bool in_brackets) {
  constexpr char kToLower = 'a' - 'A';
  const std::size_t begin = cursor.at();
  for (const char letter : {'s', 'd', 'w', 'h', 'p'}) {
    const char capital = static_cast<char>(letter - kToLower);
    const bool complement = cursor.peek() == capital;
    if (!complement && cursor.peek() != letter) continue;
    cursor.take_character();
    if (letter == 'p') return take_property(cursor, begin, complement);
    const CharacterSet set = *shorthand(letter, in_brackets);
    return complement ? complement_of(set) : set;
  }
  return std::nullopt;
}

void refuse_escape(Cursor& cursor) {
  const std::size_t begin = cursor.at();
  const auto letter = static_cast<char>(cursor.take_character());
  cursor.refuse(begin, fmt::format("\\{} is not supported", letter));
}

}  // namespace serval::oniguruma
