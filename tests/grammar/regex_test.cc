#include "engine/grammar/regex.h"

#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/grammar/reading.h"
#include "tests/instructions/scene.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using namespace grammar;
using ::testing::HasSubstr;

TEST(Regex, MatchesTheWholeText) {
  const Grammar date = compile_regex(R"(\d{4}-(0[1-9]|1[0-2]))");
  EXPECT_TRUE(reads(date, "2024-11"));
  for (const char* text : {"", "2024-13", "12024-11", "2024-11 ", "x2024-11"})
    EXPECT_FALSE(reads(date, text));
  const Grammar either = compile_regex("a|^b$|c+");
  for (const char* text : {"a", "b", "ccc"}) EXPECT_TRUE(reads(either, text));
  for (const char* text : {"ab", "xb", "cb", ""}) EXPECT_FALSE(reads(either, text));
  EXPECT_TRUE(reads(compile_regex("(é|[😀-😎])*"), "é😀é"));
  EXPECT_TRUE(reads(compile_regex("[^x]*"), "two\nlines"));
  EXPECT_FALSE(begins(compile_regex("ab"), "b"));
}

// Compares with the standard library's engine on random expressions and texts.
TEST(Regex, MatchesWhatAnotherEngineMatches) {
  Random random(9);
  size_t matched = 0;
  for (int n = 0; n < 300; ++n) {
    std::string regex;
    for (uint32_t parts = random.between(1, 4); parts > 0; --parts) {
      regex += random.pick<std::string>({"a", "b", "(a|bc)", "[^a]", ".", "(?:ab|b?c)", "\\w", "[b-c]"});
      regex += random.pick<std::string>({"", "*", "+", "?", "{2}", "{1,3}", "{2,}", "|"});
    }
    if (random.chance(0.2)) regex = "^" + regex + "$";
    const std::regex other(regex, std::regex::ECMAScript);
    const Grammar grammar = compile_regex(regex);
    for (int t = 0; t < 30; ++t) {
      std::string text;
      for (uint32_t length = random.below(6); length > 0; --length)
        text += random.pick<char>({'a', 'b', 'c', ' '});
      const bool expected = std::regex_match(text, other);
      EXPECT_EQ(reads(grammar, text), expected) << regex << " of '" << text << "'";
      matched += expected ? 1 : 0;
    }
  }
  EXPECT_GT(matched, 500U);
}

template <class Compile>
std::string refusal(Compile&& compile) {
  try {
    compile();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Regex, SaysWhatItDoesNotSupport) {
  const auto refused = [](const std::string& regex) { return refusal([&] { compile_regex(regex); }); };
  EXPECT_EQ(refused("a)|(?:b"), "regex: ')' without '('");
  EXPECT_THAT(refused("(?i)a"), HasSubstr("regex: groups that begin with '(?' are not supported"));
  EXPECT_THAT(refused("a\\b"), HasSubstr("\\b is not supported"));
  EXPECT_THAT(refused(std::string(1025, 'a')), HasSubstr("1025 bytes; limit: 1024"));
  EXPECT_THAT(refused("a$b"), HasSubstr("regex: no finite value matches it"));
  EXPECT_THAT(refused("(a|b)*a[ab]{12}"), HasSubstr("too complicated"));
}

TEST(Choice, IsOneOfTheTexts) {
  const std::vector<std::string> texts = {"yes", "no", "yes, please", "nó", "a\nb", ""};
  const Grammar grammar = compile_choice(texts);
  for (const std::string& text : texts) EXPECT_TRUE(reads(grammar, text)) << text;
  for (const char* text : {"ye", "nop", "yes,", "a", "n"}) EXPECT_FALSE(reads(grammar, text)) << text;
  EXPECT_TRUE(begins(grammar, "yes, p"));
}

TEST(Choice, HasLimits) {
  const auto refused = [](const std::vector<std::string>& texts) {
    return refusal([&] { compile_choice(texts); });
  };
  EXPECT_EQ(refused({}), "choice: empty; expected at least 1 text");
  EXPECT_EQ(refused(std::vector<std::string>(10'001, "a")), "choice: 10001 texts; limit: 10000");
  EXPECT_EQ(refused({std::string(300'000, 'a')}), "choice: 300000 bytes; limit: 262144");
  EXPECT_EQ(refused({std::string(60'000, 'a')}), "choice: needs more than 50000 states");
  std::vector<std::string> many;
  for (int i = 0; i < 10'000; ++i) many.push_back(std::to_string(i));
  EXPECT_TRUE(reads(compile_choice(many), "9999"));
}

}  // namespace
}  // namespace serval::testing
