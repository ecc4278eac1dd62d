// A set of characters, as PCRE2 can be asked for one of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace serval::oniguruma {

struct CharacterSet {
  std::string members;              // what stands between [ and ]
  std::vector<std::string> others;  // more members: expressions that match one character each

  void add(const CharacterSet& more);
  void add_range(std::uint32_t first, std::uint32_t last);

  // An expression that matches one character: of the set, or not of it.
  std::string expression() const;
  std::string complement() const;
};

// PCRE2's class has neither of these; lookahead says the same.
CharacterSet complement_of(const CharacterSet& set);
CharacterSet intersection_of(const CharacterSet& a, const CharacterSet& b);

// One character as PCRE2 reads it outside and inside a class.
std::string literal(std::uint32_t character);
std::string class_literal(std::uint32_t character);

}  // namespace serval::oniguruma
