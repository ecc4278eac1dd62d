#include "engine/grammar/gbnf.h"

#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/grammar/gbnf_parser.h"
#include "tests/grammar/example_grammars.h"
#include "tests/grammar/reading.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using namespace grammar;
using ::testing::HasSubstr;

struct Case {
  const char* grammar;
  std::vector<std::string> texts, others;
};

void expect_texts(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const Grammar grammar = compile_gbnf(one.grammar);
    for (const std::string& text : one.texts)
      EXPECT_TRUE(reads(grammar, text)) << one.grammar << "\n" << text;
    for (const std::string& text : one.others)
      EXPECT_FALSE(reads(grammar, text)) << one.grammar << "\n" << text;
  }
}

TEST(Gbnf, ReadsLiteralsAndTheirEscapes) {
  expect_texts({
      {R"(root ::= "yes")", {"yes"}, {"", "ye", "yess", "Yes"}},
      {R"(root ::= "")", {""}, {"a"}},
      {R"(root ::= )", {""}, {"a"}},
      {R"(root ::= "a" "b"  "c")", {"abc"}, {"ab", "a b c"}},
      {R"(root ::= "\n\r\t\\\"\[\]\-\^")", {"\n\r\t\\\"[]-^"}, {"n"}},
      {R"(root ::= "\x41\u00e9\U0001F600é😀")", {"Aé😀é😀"}, {"A"}},
      // As in llama.cpp, \xE9 is the character U+00E9 and not a byte.
      {R"(root ::= "\xe9")", {"é"}, {"\xe9"}},
      {"root ::= \"a\nb\"", {"a\nb"}, {"ab"}},
  });
}

TEST(Gbnf, ReadsClasses) {
  expect_texts({
      {"root ::= [a-cx]", {"a", "b", "c", "x"}, {"", "d", "ab", "-"}},
      {"root ::= [^a-c]", {"d", "\n", "é", "😀", "^"}, {"a", "c", "", "dd"}},
      {"root ::= [a^]", {"a", "^"}, {"b"}},
      {"root ::= [a-]", {"a", "-"}, {"b"}},
      {"root ::= [-a]", {"a", "-"}, {"b"}},
      {R"(root ::= [\]\\\n\x30-\x32])", {"]", "\\", "\n", "0", "2"}, {"3", "n", "x"}},
      {R"(root ::= ["'\[\-\^])", {"\"", "'", "[", "-", "^"}, {"\\"}},
      {"root ::= [à-ü]+", {"é", "àü"}, {"a", "\xc3"}},
      {R"(root ::= [\U0001F600-\U0001F64F])", {"😀", "🙏"}, {"🤖"}},
      {"root ::= .", {"a", "\n", "é", "😀"}, {"", "ab", "\xff", "\xed\xa0\x80"}},
      {"root ::= [a-cb-d]", {"a", "d"}, {"e"}},
  });
}

TEST(Gbnf, ReadsGroupsAndAlternatives) {
  expect_texts({
      {R"(root ::= "a" | "b" "c" | "")", {"a", "bc", ""}, {"b", "ab", "ac"}},
      {R"(root ::= ("a" | "b") "c")", {"ac", "bc"}, {"a", "c", "b"}},
      {R"(root ::= ([ax] "b" | "ac"))", {"ab", "xb", "ac"}, {"xc", "a"}},
      {R"(root ::= "ab" | "ac" | "a" | [a] "d")", {"ab", "ac", "a", "ad"}, {"b", "abc"}},
      {R"(root ::= (((("a"))))  ("" | "b"))", {"a", "ab"}, {"b"}},
      {R"(root ::= "a" |)", {"a", ""}, {"|"}},
      {R"(root ::= () "a")", {"a"}, {""}},
  });
}

TEST(Gbnf, RepeatsWhatIsBefore) {
  expect_texts({
      {R"(root ::= "a"*)", {"", "a", "aaaa"}, {"b"}},
      {R"(root ::= "ab"+)", {"ab", "abab"}, {"", "aba", "abb"}},
      {R"(root ::= "a"? "b")", {"b", "ab"}, {"aab", "a"}},
      {R"(root ::= [ab]{2})", {"ab", "bb"}, {"a", "aba", ""}},
      {R"(root ::= [ab]{2,})", {"ab", "ababab"}, {"a", ""}},
      {R"(root ::= "a"{ 1 , 3 } "b")", {"ab", "aaab"}, {"b", "aaaab"}},
      {R"(root ::= "a"{0} "b")", {"b"}, {"ab"}},
      {R"(root ::= "a"{0,0} "b")", {"b"}, {"ab"}},
      {R"(root ::= "a"{0,1})", {"", "a"}, {"aa"}},
      {R"(root ::= ("a" | "bc"){2,3})", {"aa", "bca", "abcbc"}, {"a", "bc", "aaaa"}},
      {"root ::= x{2}\nx ::= \"a\" | \"b\"", {"ab"}, {"a"}},
      {R"(root ::= "a" *)", {"aa"}, {}},
      {R"(root ::= "a"+?)", {"", "aa"}, {"b"}},
      {R"(root ::= "a"{100000})", {std::string(100'000, 'a')}, {std::string(99'999, 'a')}},
      {R"(root ::= (("a"{0,1000}){0,1000} "b"){2})", {"bb", "aaabab"}, {"b", "ba"}},
  });
}

// A quantifier of what may be empty must end.
TEST(Gbnf, RepeatsWhatMayBeEmpty) {
  expect_texts({
      {R"(root ::= ("a"?)*)", {"", "a", "aaa"}, {"b"}},
      {R"(root ::= ("a"? "b"?)+ "c")", {"c", "bac", "abbac"}, {"", "ab"}},
      {R"(root ::= (x y)* "!"
x ::= "a"*
y ::= "" | "b" x)",
       {"!", "aabaab!", "bb!"},
       {"c!"}},
      {R"(root ::= ("a"*){3})", {"", "a", "aaaa"}, {"b"}},
      {R"(root ::= ("a"*){2,3} "b")", {"b", "aab"}, {"a"}},
      {R"(root ::= ((("a"?)?)*)*)", {"", "aa"}, {"b"}},
      {R"(root ::= ("" | "" "")*)", {""}, {"a"}},
      {R"(root ::= (("a" | "")  ("b" | "")){1,2})", {"", "ab", "ba", "abab", "bb"}, {"bba", "ababa"}},
  });
}

TEST(Gbnf, ReadsRulesInAnyOrder) {
  expect_texts({
      {"a ::= \"x\"\nroot ::= a b-2 b_3\nb-2 ::= \"y\"\nb_3 ::= a", {"xyx"}, {"xy"}},
      {"# a comment\nroot ::= \"#\" # \"a\"\n  # another\n\n\n", {"#"}, {"a"}},
      {"root ::= \"a\"\r\n  | \"b\"\r\n  | c\r\nc ::= \"c\"\r\n", {"a", "b", "c"}, {""}},
      {"root ::=\n  (\n    \"a\" # first\n    |\n    \"b\"\n  )\n  c\nc ::= \"c\"", {"ac", "bc"}, {"a"}},
      {"root::=\"a\" 1st\n1st::=[0-9]\n", {"a1"}, {"a"}},
      {"  root ::= \"a\"\n  \"b\"\n", {"ab"}, {"a"}},  // vLLM's users break lines where they like
      {"root ::= x\nx ::= y\ny ::= root2\nroot2 ::= \"a\"\nunused ::= \"z\" unused", {"a"}, {"z"}},
  });
}

TEST(Gbnf, NestsToAnyDepth) {
  const std::string many(20'000, '('), closing(20'000, ')');
  expect_texts({
      {R"g(root ::= "(" root ")" | "x")g", {"x", "((x))", many + "x" + closing}, {"(x", "x)", many + "x"}},
      {"root ::= a\na ::= \"a\" b | \"\"\nb ::= \"b\" a \"c\" | \"d\"", {"", "ad", "abadc"}, {"ab", "adc"}},
      {R"(root ::= "a" root | "b")", {"b", std::string(50'000, 'a') + "b"}, {"a"}},
      {R"(root ::= ("[" root* "]"))", {"[]", "[[][[]]]"}, {"[", "[[]"}},
      {R"(root ::= "a" root "a" | "b" root "b" | "c")", {"abcba", "c"}, {"abcab"}},
  });
}

TEST(Gbnf, ReadsTheExamples) {
  for (const ExampleGrammar& example : example_grammars()) {
    const Grammar grammar = compile_gbnf(example.grammar);
    for (const char* text : example.texts) EXPECT_TRUE(reads(grammar, text)) << example.name << ": " << text;
    for (const char* text : example.others)
      EXPECT_FALSE(reads(grammar, text)) << example.name << ": " << text;
  }
}

std::string refusal(const std::string& text) {
  try {
    compile_gbnf(text);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage ? error.what() : "of another kind";
  }
  return "accepted";
}

TEST(Gbnf, SaysWhereAndWhatIsWrong) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "grammar: line 1, column 1: no rule is named root"},
      {"start ::= \"a\"", "line 1, column 1: no rule is named root"},
      {"root ::= a\na ::= b\n", "line 2, column 7: rule b is not defined"},
      {"root ::= \"é\" x", "line 1, column 14: rule x is not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule root is defined twice"},
      {"root = \"a\"", "line 1, column 6: \"=\": expected ::= after the name of a rule"},
      {"?start: \"a\"", "line 1, column 1: \"?\": expected a rule"},
      {"root ::= \"a", "line 1, column 10: a literal without an end"},
      {"root ::= [a", "line 1, column 10: '[' without ']'"},
      {"root ::= [a\\", "'\\' at the end"},
      {"root ::= []", "a class without characters"},
      {"root ::= [^\\x00-\\U0010FFFF]", "a class without characters"},
      {"root ::= [z-a]", "line 1, column 11: a range out of order"},
      {"root ::= (\"a\"\n", "line 2, column 1: the end: expected ')'"},
      {"root ::= (\"a\"\nb ::= \"b\"", "line 2, column 1: \"b\": expected ')'"},
      {"root ::= \"a\")", "line 1, column 13: ')' without '('"},
      {"root ::= *", "line 1, column 10: \"*\": nothing to repeat before it"},
      {"root ::= \"a\" | ?", "nothing to repeat before it"},
      {"root ::= \"a\"{}", "line 1, column 14: \"}\": expected a number"},
      {"root ::= \"a\"{,3}", "\",\": expected a number"},
      {"root ::= \"a\"{1", "the end: expected '}'"},
      {"root ::= \"a\"{1;2}", "\";\": expected '}'"},
      {"root ::= \"a\"{3,2}", "line 1, column 14: numbers in braces out of order"},
      {"root ::= \"\\q\"", "line 1, column 11: \"q\" after '\\'"},
      {"root ::= \"\\x4\"", "expected 2 hexadecimal digits"},
      {"root ::= \"\\u00+1\"", "expected 4 hexadecimal digits"},
      {"root ::= \"\\ud800\"", "a surrogate"},
      {"root ::= \"\\U00110000\"", "a character above 10FFFF"},
      {"root ::= \"a\" ; b", "line 1, column 14: \";\": not expected here"},
      {"root ::= \"a\" b ::= \"b\"", "\":\": not expected here"},
      {"root ::= <think>", "tokens, as <think> or <[7]>, are not supported"},
      {"root ::= \"\xff\"", "line 1, column 11: not UTF-8"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(refusal(text), HasSubstr(message)) << text;
}

TEST(Gbnf, RefusesRulesThatBeginWithThemselves) {
  EXPECT_THAT(refusal("root ::= expr\nexpr ::= expr \"+\" expr | \"1\""),
              HasSubstr("grammar: line 2, column 1: rule expr begins with itself (expr -> expr)"));
  EXPECT_THAT(refusal("root ::= a\na ::= b \"x\"\nb ::= \"\" c\nc ::= \"y\"? a | \"z\""),
              HasSubstr("rule a begins with itself (a -> b -> c -> a)"));
  EXPECT_THAT(refusal("root ::= (\"a\" | root)*"), HasSubstr("rule root begins with itself"));
  EXPECT_THAT(refusal("root ::= \"a\"\nunused ::= unused"), HasSubstr("rule unused begins with itself"));
  EXPECT_EQ(refusal("root ::= \"a\" root | \"\"\n"), "accepted");
  EXPECT_EQ(refusal("root ::= root{0} \"a\"\n"), "accepted");
}

TEST(Gbnf, RefusesWhatNoFiniteTextMatches) {
  EXPECT_THAT(refusal("root ::= \"a\" root"), HasSubstr("rule root cannot be compiled: no finite value"));
  EXPECT_EQ(refusal("root ::= \"a\" x | \"b\"\nx ::= \"c\" x"), "accepted");
}

TEST(Gbnf, HasLimits) {
  const auto repeated = [](size_t times, const std::string& text) {
    std::string all;
    for (size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  EXPECT_THAT(refusal(std::string(300 << 10, ' ')), HasSubstr("grammar: 307200 bytes; limit: 262144"));
  std::string rules = "root ::= \"a\"\n";
  for (int i = 0; i < 2000; ++i) rules += "r" + std::to_string(i) + "::=\"\"\n";
  EXPECT_THAT(refusal(rules), HasSubstr("line 2001, column 1: more than 2000 rules"));
  EXPECT_THAT(refusal("root ::= " + std::string(129, 'a')), HasSubstr("a name of 129 bytes; limit: 128"));
  EXPECT_THAT(refusal("root ::= " + repeated(50'001, ". ")), HasSubstr("more than 50000 elements"));
  EXPECT_THAT(refusal("root ::= \"" + std::string(60'000, 'a') + "\""), HasSubstr("more than 50000 states"));
  EXPECT_THAT(refusal("root ::= \"a\"{100001}"), HasSubstr("more than 100000 repetitions"));
  EXPECT_THAT(refusal("root ::= \"a\"{99999999999999999999}"), HasSubstr("more than 100000 repetitions"));
  const std::string nested = "groups and quantifiers nested in each other";
  EXPECT_THAT(refusal("root ::= " + std::string(65, '(')), HasSubstr(nested));
  EXPECT_THAT(refusal("root ::= " + std::string(250'000, '(')), HasSubstr(nested));
  EXPECT_THAT(refusal("root ::= \"a\"" + std::string(65, '?')), HasSubstr(nested));
  EXPECT_THAT(refusal("root ::= " + repeated(40, "(") + "\"a\"" + repeated(40, ")?")), HasSubstr(nested));
  EXPECT_EQ(refusal("root ::= " + repeated(32, "(") + "\"a\"" + repeated(32, ")?")), "accepted");
}

// Configurations follow up to 128 alternatives at once. More must not be dropped without a word.
TEST(Gbnf, RefusesMoreAlternativesThanItCanFollow) {
  std::string words, rules, literals;
  for (int i = 0; i < 200; ++i) {
    const std::string number = std::to_string(i);
    words += (i > 0 ? " | w" : "w") + number;
    rules += "w" + number + " ::= \"" + number + "!\"\n";
    literals += (i > 0 ? " | \"" : "\"") + number + "!\"";
  }
  EXPECT_THAT(refusal("root ::= \"a\" (" + words + ")\n" + rules), HasSubstr("more than 128 alternatives"));
  const Grammar list = compile_gbnf("root ::= \"a\" (" + literals + ")\n");
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(reads(list, "a" + std::to_string(i) + "!")) << i;
}

}  // namespace
}  // namespace serval::testing
