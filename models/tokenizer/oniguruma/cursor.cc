#include "models/tokenizer/oniguruma/cursor.h"

#include <charconv>
#include <fmt/format.h>

#include "models/tokenizer/unicode.h"
#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::oniguruma {
namespace {

constexpr int kMaxDigits = 6;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

bool Cursor::take(std::string_view text) {
  if (!sees(text)) return false;
  at_ += text.size();
  return true;
}

std::uint32_t Cursor::take_character() {
  if (at_end()) refuse(at_, "ends too early");
  const std::string_view rest = pattern_.substr(at_);
  const Utf8Unit unit = utf8_first(rest);
  if (unit.kind != Utf8Unit::Kind::kValid) refuse(at_, "is not UTF-8");
  at_ += unit.bytes;
  return code_point(rest.substr(0, unit.bytes));
}

int Cursor::take_number() {
  const std::size_t begin = at_;
  while (is_digit(peek()) && at_ - begin < kMaxDigits) ++at_;
  int value = -1;
  if (at_ > begin) std::from_chars(&pattern_[begin], pattern_.data() + at_, value);
  return value;
}

std::string_view Cursor::take_until(char end, std::string_view what) {
  const std::size_t begin = at_, found = pattern_.find(end, at_);
  if (found == pattern_.npos) refuse(begin, fmt::format("{} has no '{}'", what, end));
  at_ = found + 1;
  return pattern_.substr(begin, found - begin);
}

std::uint32_t Cursor::take_hex(int min_digits, int max_digits) {
  constexpr int kHexBase = 16;
  const std::size_t begin = at_;
  int digits = 0;
  while (digits < max_digits && is_hex(peek())) ++at_, ++digits;
  if (digits < min_digits)
    refuse(begin, fmt::format("{} hexadecimal digits expected, {} found", min_digits, digits));
  std::uint32_t value = 0;
  std::from_chars(&pattern_[begin], pattern_.data() + at_, value, kHexBase);
  return value;
}

void Cursor::refuse(std::size_t at, std::string_view what) const {
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: pattern {}: byte {}: {}", where_, in_quotes(pattern_), at + 1, what));
}

}  // namespace serval::oniguruma
