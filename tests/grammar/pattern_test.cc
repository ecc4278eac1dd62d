#include "engine/grammar/pattern.h"

#include <algorithm>
#include <regex>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/grammar/reading.h"
#include "tests/instructions/scene.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using namespace grammar;
using ::testing::HasSubstr;

bool finds(const std::string& pattern, const std::u32string& text) {
  const PatternAutomaton automaton = compile_pattern(pattern);
  uint32_t state = 0;
  for (const char32_t c : text) {
    if (automaton.states[state].accepts_all) return true;
    const auto& edges = automaton.states[state].edges;
    const auto edge =
        std::ranges::find_if(edges, [&](const auto& e) { return e.range.first <= c && c <= e.range.last; });
    if (edge == edges.end()) return false;
    state = edge->to;
  }
  return automaton.states[state].accepts;
}

bool finds(const std::string& pattern, const std::string& text) {
  return finds(pattern, std::u32string(text.begin(), text.end()));
}

TEST(Pattern, IsFoundAnywhereUnlessItIsAnchored) {
  EXPECT_TRUE(finds("b+", "abbc"));
  EXPECT_FALSE(finds("b+", "ac"));
  EXPECT_TRUE(finds("^b", "bc"));
  EXPECT_FALSE(finds("^b", "ab"));
  EXPECT_TRUE(finds("b$", "ab"));
  EXPECT_FALSE(finds("b$", "bc"));
  EXPECT_TRUE(finds("^a|b$", "ac"));
  EXPECT_TRUE(finds("^a|b$", "cb"));
  EXPECT_FALSE(finds("^(a|b)$", "ab"));
  EXPECT_TRUE(finds("", "anything"));
  EXPECT_TRUE(finds("^^a", "ab"));
  EXPECT_FALSE(finds("^^a", "ba"));
  EXPECT_TRUE(finds("a$$", "ba"));
  EXPECT_TRUE(finds("^(^a)$", "a"));
  EXPECT_TRUE(finds("^(?:^a|b)$", "b"));
  EXPECT_FALSE(finds("^(?:^a|b)$", "ab"));
  EXPECT_TRUE(finds("$^", ""));
  EXPECT_FALSE(finds("a^b", "ab"));
}

TEST(Pattern, KnowsClassesAndEscapes) {
  EXPECT_TRUE(finds("^[a-cx]{3}$", "bxc"));
  EXPECT_FALSE(finds("^[^a-c]$", "b"));
  EXPECT_TRUE(finds("^[^a-c]$", "\n"));
  EXPECT_TRUE(finds("^\\d\\D\\w\\W\\s\\S$", "1a_- x"));
  EXPECT_FALSE(finds("^\\d$", "x"));
  EXPECT_FALSE(finds("^.$", "\n"));
  EXPECT_TRUE(finds("^\\.\\x41\\u0042\\t[\\]\\-]$", ".AB\t]"));
  EXPECT_TRUE(finds("^é$", std::u32string(U"é")));
  EXPECT_FALSE(finds("^[^\\d]$", std::u32string(U"٣")));  // some engines take it for a digit
  EXPECT_FALSE(finds("^\\S$", std::u32string(U"\u00a0")));
}

// Compares with the standard library's engine on random expressions and texts.
TEST(Pattern, FindsWhatAnotherEngineFinds) {
  Random random(7);
  const auto atom = [&](auto& self, int depth) -> std::string {
    const std::string leaf = random.pick<std::string>({"a", "b", "[ab]", "[^a]", ".", "c", "\\w", "[b-c]"});
    if (depth == 0 || random.chance(0.6)) return leaf;
    std::string inside = self(self, depth - 1) + self(self, depth - 1);
    if (random.chance(0.4)) inside += "|" + self(self, depth - 1);
    return random.pick<std::string>({"(", "(?:"}) + inside + ")";
  };
  size_t found = 0;
  for (int n = 0; n < 400; ++n) {
    std::string pattern = random.chance(0.4) ? "^" : "";
    for (uint32_t parts = random.between(1, 3); parts > 0; --parts)
      pattern +=
          atom(atom, 2) + random.pick<std::string>({"", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"});
    if (random.chance(0.4)) pattern += "$";
    const std::regex other(pattern, std::regex::ECMAScript);
    for (int t = 0; t < 20; ++t) {
      std::string text;
      for (uint32_t length = random.below(7); length > 0; --length)
        text += random.pick<char>({'a', 'b', 'c', ' '});
      const bool expected = std::regex_search(text, other);
      EXPECT_EQ(finds(pattern, text), expected) << pattern << " in '" << text << "'";
      found += expected ? 1 : 0;
    }
  }
  EXPECT_GT(found, 1000U);
}

std::string refusal(const std::string& pattern) {
  try {
    compile_pattern(pattern);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Pattern, NamesWhatItDoesNotSupport) {
  EXPECT_THAT(refusal("a\\b"), HasSubstr("\\b is not supported"));
  EXPECT_THAT(refusal("(a)\\1"), HasSubstr("\\1 is not supported"));
  EXPECT_THAT(refusal("\\p{L}"), HasSubstr("\\p is not supported"));
  EXPECT_THAT(refusal("(?=a)"), HasSubstr("(?"));
  EXPECT_THAT(refusal("(?<name>a)"), HasSubstr("(?"));
  EXPECT_THAT(refusal("\\ud800"), HasSubstr("surrogates"));
}

TEST(Pattern, RefusesInvalidExpressions) {
  for (const char* pattern :
       {"(", ")", "a)", "[a", "*", "a**", "a{", "a{2,1}", "[z-a]", "\\", "a{x}", "[\\d-z]", "\\xg0", "\\u12"})
    EXPECT_NE(refusal(pattern), "accepted") << pattern;
}

TEST(Pattern, HasLimits) {
  EXPECT_THAT(refusal(std::string(2000, 'a')), HasSubstr("2000 bytes; limit: 1024"));
  EXPECT_THAT(refusal("a{1001}"), HasSubstr("more than 1000 repetitions"));
  EXPECT_THAT(refusal("((a{100}){100}){100}"), HasSubstr("too large"));
  EXPECT_THAT(refusal("(.*a.{12}.*b.{12}){3}"), HasSubstr("too complicated"));
  EXPECT_THAT(refusal(std::string(500, '(')), HasSubstr("64 groups"));
}

}  // namespace
}  // namespace serval::testing
