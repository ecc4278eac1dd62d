#include "engine/grammar/token_masks.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/grammar/constraint.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/json_schema.h"
#include "tests/grammar/example_grammars.h"
#include "tests/instructions/scene.h"
#include "vm/base/error.h"
#include "vm/state/masks.h"

namespace serval::testing {
namespace {

using namespace grammar;

// All bytes, and random tokens of JSON text: several pieces, cut at any byte.
std::vector<std::string> random_vocabulary(Random& random) {
  std::vector<std::string> tokens = {""};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const std::vector<std::string> pieces = {"{\"", "\":", "\",",  "\"}",  "}",  "]",    "[",     ",\n", "  ",
                                           "a",   "bc",  "é",    "😀",    "\\", "\\n",  "\\u00", "12",  "-",
                                           ".5",  "e1",  "true", "null", "\"", "name", " "};
  for (int n = 0; n < 1200; ++n) {
    std::string token;
    for (uint32_t parts = random.between(1, 4); parts > 0; --parts) token += random.pick(pieces);
    token = token.substr(0, random.between(1, static_cast<uint32_t>(token.size())));
    tokens.push_back(token);
  }
  return tokens;
}

TokenTrie trie_of(const std::vector<std::string>& tokens) {
  return {static_cast<uint32_t>(tokens.size()),
          [&](int32_t id) { return std::optional(tokens[static_cast<size_t>(id)]); }};
}

constexpr const char* kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},"n":{"type":"integer"}},
        "required":["name"],"additionalProperties":{"type":"string"}})",
    R"({"type":"array","items":{"enum":["a","bc",12,null,true]},"minItems":1,"maxItems":40})",
    R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"name":{"type":"string","minLength":3},
        "children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["name","children"]}}})",
    R"({"anyOf":[{"type":"number"},{"type":"string","pattern":"^a[bc]+$"},{"type":"string","pattern":"bc"}]})",
    "true"};

// Walks through random texts. After each token, compares the mask with the result of testing each token by
// itself, byte by byte, with exact configurations.
void expect_masks_of_each_token(const Grammar& grammar, uint64_t seed, bool few_characters) {
  Random random(seed);
  const std::vector<std::string> tokens = random_vocabulary(random);
  const TokenTrie trie = trie_of(tokens);
  Configurations configurations(grammar, trie.longest_token()), exact(grammar, trie.longest_token());
  TokenMasks masks(trie, configurations);
  for (int text = 0; text < 8; ++text) {
    ConfigId config = configurations.start(), known = exact.start();
    for (int length = 0; length < 25; ++length) {
      const auto mask = masks.mask(config);
      std::vector<int32_t> allowed;
      for (uint32_t id = 0; id < trie.vocab(); ++id) {
        ConfigId to = tokens[id].empty() ? kDead : known;
        for (const char c : tokens[id]) to = exact.after(to, static_cast<uint8_t>(c));
        ASSERT_EQ(mask_allows(*mask, id), to != kDead) << "token '" << tokens[id] << "'";
        const bool wanted = !few_characters || tokens[id].size() < 3;
        if (to != kDead && wanted) allowed.push_back(static_cast<int32_t>(id));
      }
      if (allowed.empty()) break;
      const int32_t next = random.pick(allowed);
      config = masks.after(config, next);
      for (const char c : tokens[static_cast<size_t>(next)])
        known = exact.after(known, static_cast<uint8_t>(c));
      EXPECT_EQ(configurations.is_complete(config), exact.is_complete(known));
    }
  }
}

TEST(TokenMasks, EqualTheResultsOfTestingEachToken) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (const char* schema : kSchemas)
      expect_masks_of_each_token(compile_json_schema(schema), seed, seed % 2 == 0);
    expect_masks_of_each_token(json_object_grammar(), seed, seed % 2 == 0);
  }
}

// The loops of GBNF over any characters allow the same shortcut as strings of JSON.
TEST(TokenMasks, EqualTheResultsOfTestingEachTokenOfAGbnf) {
  constexpr const char* kGrammars[] = {R"(root ::= "{\"" [^"]* "\":" (.{0,7} | [^\x00-\x1F\x7F]+) "}")",
                                       R"(root ::= char{2,9} | "12" line*
char ::= [^"\] | "\" ["n]
line ::= [^\n]* "\n" | (char "-")+ "e1")",
                                       R"(root ::= (([^a] | "a" "b")* ("true" | "null"))* "]")"};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (const char* text : kGrammars) expect_masks_of_each_token(compile_gbnf(text), seed, seed == 0);
    for (const ExampleGrammar& example : example_grammars())
      expect_masks_of_each_token(compile_gbnf(example.grammar), seed, seed == 0);
  }
}

// All positions of a string that are far from its length limits share one mask.
TEST(TokenMasks, AreSharedByEquivalentPositions) {
  const std::vector<std::string> tokens = {"\"", "a", "aaa"};
  const TokenTrie trie = trie_of(tokens);
  const Grammar grammar = compile_json_schema(R"({"type":"string","maxLength":1000})");
  Configurations configurations(grammar, trie.longest_token());
  TokenMasks masks(trie, configurations);
  ConfigId config = masks.after(configurations.start(), 0);
  const auto first = masks.mask(config);
  for (int i = 0; i < 900; ++i) {
    config = masks.after(config, 1);
    EXPECT_EQ(masks.mask(config), first);
  }
  for (int i = 0; i < 98; ++i) config = masks.after(config, 1);
  EXPECT_EQ(*masks.mask(config), Mask{0b011});  // "aaa" would exceed the limit
}

TEST(ConstrainedText, GivesTheAllowedTokensAndWhetherItMayEnd) {
  const std::vector<std::string> tokens = {"tr", "ue", "false", "fal", "x", "",  "true!", "t",
                                           "r",  "u",  "e",     "f",   "a", "l", "s"};
  auto trie = std::make_shared<const TokenTrie>(trie_of(tokens));
  const auto constraint = std::make_shared<Constraint>(compile_json_schema(R"({"type":"boolean"})"), trie);
  ConstrainedText text(constraint);
  EXPECT_EQ(*text.place().mask, Mask{0b1000'1000'1101});
  EXPECT_FALSE(text.place().complete);
  text.add(0);
  EXPECT_EQ(*text.place().mask, Mask{0b10'0000'0010});
  text.add(1);
  EXPECT_EQ(*text.place().mask, Mask{0});
  EXPECT_TRUE(text.place().complete);
}

// Configurations keep 128 alternatives. Whichever they drop, an allowed token must lead on.
TEST(ConstrainedText, OfAnAmbiguousGrammarCanAlwaysContinue) {
  const Grammar grammar =
      compile_gbnf(R"(root ::= (("a" "a"{0,9}){1,100} ("b"? "a"{0,9}){0,40} | "a"{1,100} | "a"){1,100} "c")");
  const std::vector<std::string> tokens = {"a", "b", "c", "aa", "ab", "aaaa", "aaaaaaa", "bbb", "abab"};
  auto trie = std::make_shared<const TokenTrie>(trie_of(tokens));
  Random random(1);
  for (int text = 0; text < 4; ++text) {
    ConstrainedText written(std::make_shared<Constraint>(grammar, trie));
    for (int length = 0; length < 25; ++length) {
      std::vector<int32_t> allowed;
      for (uint32_t id = 0; id < trie->vocab(); ++id)
        if (mask_allows(*written.place().mask, id) && tokens[id] != "c")
          allowed.push_back(static_cast<int32_t>(id));
      ASSERT_FALSE(allowed.empty());
      written.add(random.chance(0.5) ? allowed.back() : random.pick(allowed));
    }
  }
}

// Precomputed masks equal those computed on demand.
TEST(ConstrainedText, IsTheSameWithPrecomputedMasks) {
  Random random(3);
  const std::vector<std::string> tokens = random_vocabulary(random);
  auto trie = std::make_shared<const TokenTrie>(trie_of(tokens));
  for (const char* schema : kSchemas) {
    const auto ahead = std::make_shared<Constraint>(compile_json_schema(schema), trie);
    ahead->precompute_masks();
    ConstrainedText one(ahead), other(std::make_shared<Constraint>(compile_json_schema(schema), trie));
    for (int length = 0; length < 20; ++length) {
      ASSERT_EQ(*one.place().mask, *other.place().mask);
      ASSERT_EQ(one.place().complete, other.place().complete);
      std::vector<int32_t> allowed;
      for (uint32_t id = 0; id < trie->vocab(); ++id)
        if (mask_allows(*one.place().mask, id)) allowed.push_back(static_cast<int32_t>(id));
      if (allowed.empty()) break;
      const int32_t next = random.pick(allowed);
      one.add(next);
      other.add(next);
    }
  }
}

// Bytes that are not a token by themselves are removed, so that some token can always come next.
TEST(ConstrainedText, UsesOnlyBytesThatAreTokens) {
  const std::vector<std::string> tokens = {"\"", "a", "b", "\"b", "bé", "12"};
  auto trie = std::make_shared<const TokenTrie>(trie_of(tokens));
  const auto constraint = std::make_shared<Constraint>(compile_json_schema(R"({"type":"string"})"), trie);
  EXPECT_EQ(*ConstrainedText(constraint).place().mask, Mask{0b1001});
  EXPECT_THROW(Constraint(compile_json_schema(R"({"type":"number"})"), trie), Error);
}

// Texts continue after the caches of their grammar are emptied.
TEST(ConstrainedText, OutlivesTheCaches) {
  std::vector<std::string> tokens = {"[", "]", "1", ","};
  auto trie = std::make_shared<const TokenTrie>(trie_of(tokens));
  const auto constraint = std::make_shared<Constraint>(
      compile_json_schema(
          R"({"type":"array","items":{"type":"array","items":{"const":1},"maxItems":30000}})"),
      trie);
  ConstrainedText text(constraint), other(constraint);
  text.add(0);
  text.add(0);
  text.add(2);
  other.add(0);
  for (int i = 0; i < 20000; ++i) {
    ASSERT_EQ(*text.place().mask, Mask{0b1010}) << i;
    text.add(3);
    ASSERT_EQ(*text.place().mask, Mask{0b0100}) << i;
    text.add(2);
  }
  EXPECT_EQ(*other.place().mask, Mask{0b0011});
}

}  // namespace
}  // namespace serval::testing
