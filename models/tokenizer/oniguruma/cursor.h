// A position in an Oniguruma pattern, with functions to read it and to report errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace serval::oniguruma {

class Cursor {
 public:
  // Error lines start with `where`. Both views must outlive the cursor.
  Cursor(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  bool at_end() const { return at_ == pattern_.size(); }
  std::size_t at() const { return at_; }
  void back_to(std::size_t at) { at_ = at; }

  bool sees(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text);
  bool ends_with(char c) const { return at_ > 0 && pattern_[at_ - 1] == c; }  // the text taken so far
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }

  // Takes the next character. Refuses the end of the pattern and invalid UTF-8.
  std::uint32_t take_character();
  // Takes a decimal number of at most 6 digits; -1 if there is none.
  int take_number();
  // Takes the text up to `end`, and `end`. Refuses a pattern without `end`.
  std::string_view take_until(char end, std::string_view what);
  // Takes `min_digits` to `max_digits` hexadecimal digits.
  std::uint32_t take_hex(int min_digits, int max_digits);

  std::string_view text_since(std::size_t begin) const { return pattern_.substr(begin, at_ - begin); }

  // Throws Error(kRuntime): "WHERE: pattern "…": byte N: WHAT".
  [[noreturn]] void refuse(std::size_t at, std::string_view what) const;

 private:
  std::string_view pattern_, where_;
  std::size_t at_ = 0;
};

}  // namespace serval::oniguruma
