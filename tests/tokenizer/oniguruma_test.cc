// A pattern has the same matches as in Hugging Face's `tokenizers`, or is refused by name.
#include <deque>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "models/tokenizer/oniguruma/pattern.h"
#include "models/tokenizer/oniguruma/properties.h"
#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/regex.h"
#include "models/tokenizer/unicode.h"
#include "tests/tokenizer/golden_data.h"
#include "tests/tokenizer/tiny_tokenizer.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json& recorded() {
  static const json data = golden::read("patterns.json");
  return data;
}

std::string utf8(std::uint32_t c) {
  const auto continuation = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), continuation(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), continuation(6), continuation(0)};
  return {static_cast<char>(0xF0 | c >> 18), continuation(12), continuation(6), continuation(0)};
}

// All characters of the ranges [first, last, first, last, …].
std::vector<std::uint32_t> characters_of(const json& ranges) {
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < ranges.size(); i += 2) {
    for (std::uint32_t c = ranges[i]; c <= ranges[i + 1].get<std::uint32_t>(); ++c) out.push_back(c);
  }
  return out;
}

std::string all_characters() {
  std::string text;
  for (const std::uint32_t c : characters_of(recorded()["characters"])) text += utf8(c);
  return text;
}

TEST(Oniguruma, EverySetHoldsTheSameCharacters) {
  const std::string text = all_characters();
  for (const json& entry : recorded()["sets"]) {
    std::vector<std::uint32_t> found;
    for (const TextSpan& match : Regex(entry[0].get<std::string>(), "here").find_all(text)) {
      found.push_back(code_point(std::string_view(text).substr(match.begin, match.end - match.begin)));
    }
    EXPECT_TRUE(found == characters_of(entry[1])) << entry[0] << ": " << found.size() << " characters";
  }
}

TEST(Oniguruma, EveryNamedSetIsTested) {
  std::set<std::string> patterns;
  for (const json& entry : recorded()["sets"]) patterns.insert(entry[0].get<std::string>());
  for (const std::string& name : oniguruma::property_names()) {
    EXPECT_TRUE(patterns.contains("\\p{" + name + "}")) << name;
  }
  for (const std::string& name : oniguruma::posix_bracket_names()) {
    EXPECT_TRUE(patterns.contains("[[:" + name + ":]]")) << name;
    EXPECT_TRUE(patterns.contains("[[:^" + name + ":]]")) << name;
  }
}

TEST(Oniguruma, EverySearchFindsTheSame) {
  EXPECT_GE(recorded()["searches"].size(), 1500u);
  for (const json& entry : recorded()["searches"]) {
    const auto pattern = entry[0].get<std::string>();
    SCOPED_TRACE(pattern + "  as  " + oniguruma::to_pcre2(pattern, "here"));
    const Regex regex(pattern, "here");
    for (const json& search : entry[1]) {
      std::vector<std::size_t> found;
      for (const TextSpan& match : regex.find_all(search[0].get<std::string>())) {
        if (match.begin != match.end) found.insert(found.end(), {match.begin, match.end});
      }
      EXPECT_EQ(found, search[1].get<std::vector<std::size_t>>()) << search[0];
    }
  }
}

TEST(GoldenPreTokenizers, CutAtTheSamePunctuation) {
  const json config = {{"type", "Sequence"},
                       {"pretokenizers",
                        {{{"type", "Punctuation"}, {"behavior", "Removed"}},
                         {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  std::string expected;
  const auto cut = characters_of(recorded()["punctuation"]);
  const std::set<std::uint32_t> punctuation(cut.begin(), cut.end());
  for (const std::uint32_t c : characters_of(recorded()["characters"])) {
    if (!punctuation.contains(c)) expected += utf8(c);
  }
  const std::string text = all_characters();
  std::deque<std::string> storage;
  std::string left;
  for (const auto piece : PreTokenizer(JsonField(config, "tokenizer.json")).split(text, &storage))
    left += piece;
  EXPECT_TRUE(left == expected);
}

TEST(Oniguruma, KeepsPatternsThatMeanTheSameInBoth) {
  const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*)"
      R"(|\p{White_Space}*[\r\n]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)";
  const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+)"
                           R"(|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)";
  EXPECT_EQ(oniguruma::to_pcre2(llama3, "here"), llama3);
  EXPECT_EQ(oniguruma::to_pcre2(gpt2, "here"), gpt2);
  EXPECT_EQ(oniguruma::to_pcre2(R"(\s+(?!\S))", "here"), R"(\p{White_Space}+(?!\P{White_Space}))");
}

struct Refusal {
  const char* pattern;
  const char* because;  // part of the line
};

constexpr Refusal kRefusals[] = {
    {R"(a\X)", R"(byte 3: \X is not supported)"},
    {R"(\y)", R"(\y is not supported)"},
    {R"(\Y)", R"(\Y is not supported)"},
    {R"(\K)", R"(\K is not supported)"},
    {R"(\G)", R"(\G is not supported)"},
    {R"((a)\1)", R"(\1 is not supported)"},
    {R"(\012)", R"(\0 is not supported)"},
    {R"((?<n>a)\k<n>)", R"(\k is not supported)"},
    {R"(\g<1>)", R"(\g is not supported)"},
    {R"(\cA)", R"(\c is not supported)"},
    {R"(\C-a)", R"(\C is not supported)"},
    {R"(\M-a)", R"(\M is not supported)"},
    {R"(\Qa\E)", R"(\Q is not supported)"},
    {R"(\i)", R"(\i is not supported)"},
    {R"(\xE9)", "bytes, not characters"},
    {R"(\x4)", "2 hexadecimal digits expected, 1 found"},
    {R"(\u12)", "4 hexadecimal digits expected, 2 found"},
    {R"(\x{D800})", "D800 is not a character"},
    {R"(\x{110000})", "110000 is not a character"},
    {R"(\x{41)", "has no '}'"},
    {R"(\pL)", "\\p without '{'"},
    {R"(\p{L)", "has no '}'"},
    {R"(\p{Kawi})", "the property \"Kawi\" is not supported"},
    {R"(\p{scx:Han})", "the property \"scx:Han\" is not supported"},
    {R"(\p{InBasicLatin})", "the property \"InBasicLatin\" is not supported"},
    {R"(\p{L&})", "the property \"L&\" is not supported"},
    {"(?s:.)", "(?s is not supported"},
    {"(?x) a", "(?x is not supported"},
    {"(?W:a)", "(?W is not supported"},
    {"(?i--m:a)", "(?- is not supported"},
    {"(?P<n>a)", "(?P is not supported"},
    {"(?|a)", "(?| is not supported"},
    {"(?~a)", "(?~ is not supported"},
    {"(?#a)", "(?# is not supported"},
    {"(?(1)a)", "(?( is not supported"},
    {"(?'n'a)", "(?' is not supported"},
    {"(*FAIL)", "(* is not supported"},
    {"(?<n", "has no '>'"},
    {"(?", "is not supported"},
    {"(a", "'(' without ')'"},
    {"a)", "')' without '('"},
    {"*a", "nothing to repeat"},
    {"a|+", "nothing to repeat"},
    {"{2}", "nothing to repeat"},
    {"a{3,1}", "with m below n"},
    {"a**", "a quantifier after *, + or ?"},
    {"a{1,2}?*", "a quantifier after *, + or ?"},
    {"(?:a?b?){2}", "{n} after an expression that may be empty"},
    {"(?:a|b*|c){2,}", "{n} after an expression that may be empty"},
    {R"((?:\b){3})", "{n} after an expression that may be empty"},
    {"(?=a)*", "repeating an assertion"},
    {"^*", "repeating an assertion"},
    {R"(\b+)", "repeating an assertion"},
    {R"(a\)", "ends too early"},
    {R"([a\)", "ends too early"},
    {"[a", "[ has no ]"},
    {"[]a]", "] as the first in ["},
    {"[^]", "] as the first in ["},
    {"[a&&]", "nothing before or after &&"},
    {"[&&a]", "nothing before or after &&"},
    {"[z-a]", "ends before it begins"},
    {"[a-c-e]", "- in the middle of ["},
    {R"([\d-x])", "- in the middle of ["},
    {R"([a-\d])", "ends in a set"},
    {"[--a]", "-- in ["},
    {R"([\R])", R"(\R is not supported)"},
    {R"([\X])", R"(\X is not supported)"},
    {"[[:foo:]]", "the set [:\"foo\":] is unknown"},
    {"[[:\n:]]", "the set [:\"\\n\":] is unknown"},
    {"(?\n)", "(? is not supported"},
    {"[[:alpha]", "has no ':'"},
    {"[[:alpha:a]", "has no :]"},
    {"(?i)ss", "ss, ff, fi, fl and st under (?i)"},
    {"(?i)Fi", "ss, ff, fi, fl and st under (?i)"},
    {"(?i)s(?:t)", "ss, ff, fi, fl and st under (?i)"},
    {"(?i)[s]s", "ss, ff, fi, fl and st under (?i)"},
    {"(?i)s+", "repeating the letters"},
    {"(?i)(?:ts){2}", "repeating the letters"},
    {"(?i)ß", "this character under (?i)"},
    {"(?i)ΐ", "this character under (?i)"},
    {"(?i)[ß]", "this character under (?i)"},
    {"(?i)[Ā-ſ]", "this character under (?i)"},
    {R"((?i)[\p{L}])", "this set in [ under (?i)"},
    {R"((?i)[\w])", "this set in [ under (?i)"},
    {"(?i)[[a]b]", "this set in [ under (?i)"},
    {"(?i)[a&&b]", "&& under (?i)"},
};

TEST(Oniguruma, RefusesOtherPatternsByName) {
  for (const auto& [pattern, because] : kRefusals) {
    EXPECT_THAT(tiny::error_of([&, p = pattern] { Regex(p, "file: field"); }),
                testing::AllOf(testing::StartsWith("file: field: pattern "), HasSubstr(because)))
        << pattern;
  }
}

TEST(Oniguruma, RefusesDeepNesting) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string out;
    for (int i = 0; i < depth; ++i) out += open;
    out += 'a';
    for (int i = 0; i < depth; ++i) out += close;
    return out;
  };
  EXPECT_THAT(tiny::error_of([&] { Regex(nested(1000, "(", ")"), "here"); }),
              HasSubstr("nested deeper than 100"));
  EXPECT_THAT(tiny::error_of([&] { Regex(nested(1000, "[", "]"), "here"); }),
              HasSubstr("nested deeper than 16"));
  EXPECT_THAT(tiny::error_of([&] { Regex(nested(1000, "(?i)(", ")"), "here"); }),
              HasSubstr("nested deeper than 100"));
}

}  // namespace
}  // namespace serval
