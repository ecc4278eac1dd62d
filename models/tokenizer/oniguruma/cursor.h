// A place in an Oniguruma pattern, and the one line about what is refused there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace serval::oniguruma {

class Cursor {
 public:
  // `where` begins the message of an Error. Both views outlive the cursor.
  Cursor(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  bool at_end() const { return at_ == pattern_.size(); }
  std::size_t at() const { return at_; }
  void back_to(std::size_t at) { at_ = at; }

  bool sees(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text);
  bool ends_with(char c) const { return at_ > 0 && pattern_[at_ - 1] == c; }  // what has been taken does
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }

  // The next character, which must be there. Refuses what is not UTF-8.
  std::uint32_t take_character();
  // A decimal number of at most `kMaxDigits` digits, or -1 where there is none.
  int take_number();
  // The text up to `end`, which is taken too; refuses where there is no `end`.
  std::string_view take_until(char end, std::string_view what);
  // 1 to `max_digits` hexadecimal digits.
  std::uint32_t take_hex(int min_digits, int max_digits);

  std::string_view text_since(std::size_t begin) const { return pattern_.substr(begin, at_ - begin); }

  // Throws Error(kRuntime): "WHERE: pattern "…": byte N: WHAT".
  [[noreturn]] void refuse(std::size_t at, std::string_view what) const;

 private:
  std::string_view pattern_, where_;
  std::size_t at_ = 0;
};

}  // namespace serval::oniguruma
