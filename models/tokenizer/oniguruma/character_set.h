// A set of characters as a PCRE2 expression.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace serval::oniguruma {

struct CharacterSet {
  std::string members;              // text between [ and ] of a PCRE2 class
  std::vector<std::string> others;  // other members: expressions that match one character each

  void add(const CharacterSet& more);
  void add_range(std::uint32_t first, std::uint32_t last);

  // Expressions that match one character of the set, or one that is not in it.
  std::string expression() const;
  std::string complement() const;
};

// PCRE2's classes support neither, so these use lookahead.
CharacterSet complement_of(const CharacterSet& set);
CharacterSet intersection_of(const CharacterSet& a, const CharacterSet& b);

// A character, escaped for PCRE2 outside and inside a class.
std::string literal(std::uint32_t character);
std::string class_literal(std::uint32_t character);

}  // namespace serval::oniguruma
