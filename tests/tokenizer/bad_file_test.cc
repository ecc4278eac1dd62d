// A damaged or malicious tokenizer.json gives one error line that names the field.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/tokenizer/golden_data.h"
#include "tests/tokenizer/tiny_tokenizer.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_with(const std::function<void(json&)>& modify) {
  json tokenizer = tiny::tokenizer_json();
  modify(tokenizer);
  return tiny::error_of([&] { tiny::load(tokenizer); });
}

std::string error_of_text(const std::string& text) {
  return tiny::error_of([&] { Tokenizer::from_json(text); });
}

TEST(TokenizerFile, LoadsTheUnmodifiedFile) {
  EXPECT_EQ(tiny::load(tiny::tokenizer_json()).vocab_size(), 260);
}

TEST(TokenizerFile, IsMissing) {
  EXPECT_THAT(tiny::error_of([] { Tokenizer::load("/nonexistent"); }),
              testing::StrEq("/nonexistent/tokenizer.json: no such file"));
}

TEST(TokenizerFile, IsTruncatedAnywhere) {
  const std::string text = tiny::tokenizer_json().dump();
  for (std::size_t size = 0; size < text.size(); size += 97) {
    EXPECT_THAT(error_of_text(text.substr(0, size)), HasSubstr("tokenizer.json: byte ")) << size;
  }
}

TEST(TokenizerFile, IsLargerThanTheLimit) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "serval_large_tokenizer";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json").put('{');
  std::filesystem::resize_file(folder / "tokenizer.json", kMaxTokenizerFileBytes + 1);  // sparse
  EXPECT_THAT(tiny::error_of([&] { Tokenizer::load(folder); }),
              HasSubstr("tokenizer.json: 67108865 bytes; limit: 67108864"));
  std::filesystem::remove_all(folder);
}

TEST(TokenizerFile, IsNotAnObject) {
  EXPECT_EQ(error_of_text("[1,2]"), "tokenizer.json: expected an object, found array");
  EXPECT_EQ(error_of_text("{}"), "tokenizer.json: has no \"model\"");
}

TEST(TokenizerFile, NestsTooDeep) {
  EXPECT_EQ(error_of_text(std::string(100'000, '[')), "tokenizer.json: byte 65: nested deeper than 64");
}

TEST(TokenizerFile, HasInvalidUtf8) {
  EXPECT_THAT(error_of_text("{\"model\": \"\xC3\x28\"}"), HasSubstr("ill-formed UTF-8"));
}

TEST(TokenizerFile, HasATokenTwice) {
  EXPECT_THAT(error_of_text(R"({"model":{"vocab":{"a":0,"b":1,"a":2}}})"),
              HasSubstr("key \"a\" appears twice in one object"));
}

TEST(TokenizerFile, GivesTwoTokensOneId) {
  EXPECT_EQ(error_with([](json& t) { t["model"]["vocab"]["abc"] = tiny::kAb; }),
            "tokenizer.json: model.vocab.abc: a second token with id 256");
}

TEST(TokenizerFile, HasIdsOutOfRange) {
  for (const char* id : {"-1", "1048576", "4294967296", "9223372036854775807", "18446744073709551615"}) {
    EXPECT_EQ(error_with([&](json& t) { t["model"]["vocab"]["abc"] = json::parse(id); }),
              std::string("tokenizer.json: model.vocab.abc: ") + id + " is not in 0…1048575");
    EXPECT_EQ(error_with([&](json& t) { t["added_tokens"][0]["id"] = json::parse(id); }),
              std::string("tokenizer.json: added_tokens[0].id: ") + id + " is not in 0…1048575");
  }
  EXPECT_EQ(error_with([&](json& t) { t["model"]["vocab"]["abc"] = 1e3; }),
            "tokenizer.json: model.vocab.abc: expected an integer, found number");
}

TEST(TokenizerFile, HasWrongTypes) {
  EXPECT_EQ(error_with([](json& t) { t["model"] = 3; }),
            "tokenizer.json: model: expected an object, found number");
  EXPECT_EQ(error_with([](json& t) { t["model"]["vocab"] = json::array(); }),
            "tokenizer.json: model.vocab: expected an object, found array");
  EXPECT_EQ(error_with([](json& t) { t["model"]["vocab"] = json::object(); }),
            "tokenizer.json: model.vocab: has no tokens");
  EXPECT_EQ(error_with([](json& t) { t["model"]["vocab"]["abc"] = "x"; }),
            "tokenizer.json: model.vocab.abc: expected an integer, found string");
  EXPECT_EQ(error_with([](json& t) { t["model"]["merges"] = "a b"; }),
            "tokenizer.json: model.merges: expected an array, found string");
  EXPECT_EQ(error_with([](json& t) { t["model"]["ignore_merges"] = 1; }),
            "tokenizer.json: model.ignore_merges: expected true or false, found number");
  EXPECT_EQ(error_with([](json& t) { t["added_tokens"] = json::object(); }),
            "tokenizer.json: added_tokens: expected an array, found object");
  EXPECT_EQ(error_with([](json& t) { t["added_tokens"][1]["lstrip"] = "yes"; }),
            "tokenizer.json: added_tokens[1].lstrip: expected true or false, found string");
}

TEST(TokenizerFile, MergesUnknownTokens) {
  EXPECT_EQ(error_with([](json& t) { t["model"]["merges"][1] = "ab xyz"; }),
            "tokenizer.json: model.merges[1]: \"xyz\" is not in model.vocab");
  EXPECT_EQ(error_with([](json& t) {
              t["model"]["merges"][1] = json{"b", "c"};
            }),
            "tokenizer.json: model.merges[1]: \"bc\" is not in model.vocab");
}

TEST(TokenizerFile, MergesInACycle) {
  EXPECT_EQ(error_with([](json& t) {
              t["model"]["merges"][0] = json{"", "ab"};
            }),
            "tokenizer.json: model.merges[0]: merges an empty token; both parts must have characters");
  EXPECT_EQ(error_with([](json& t) { t["model"]["merges"][0] = "ab "; }),
            "tokenizer.json: model.merges[0]: merges an empty token; both parts must have characters");
}

TEST(TokenizerFile, MergesOnePairAtTwoRanks) {
  EXPECT_EQ(error_with([](json& t) {
              t["model"]["merges"] = {"a b", "ab c", "a b"};
            }),
            "tokenizer.json: model.merges[2]: the same pair as merge 0");
}

TEST(TokenizerFile, HasMergesThatAreNotPairs) {
  EXPECT_EQ(error_with([](json& t) { t["model"]["merges"][0] = "ab"; }),
            "tokenizer.json: model.merges[0]: \"ab\" is not two tokens separated by a space");
  EXPECT_EQ(error_with([](json& t) { t["model"]["merges"][0] = "a b c"; }),
            "tokenizer.json: model.merges[0]: \"a b c\" is not two tokens separated by a space");
  EXPECT_EQ(error_with([](json& t) {
              t["model"]["merges"][0] = json{"a", "b", "c"};
            }),
            "tokenizer.json: model.merges[0]: 3 tokens, a merge has 2");
  EXPECT_EQ(error_with([](json& t) {
              t["model"]["merges"][0] = json{"a", 1};
            }),
            "tokenizer.json: model.merges[0][1]: expected a string, found number");
  EXPECT_EQ(error_with([](json& t) { t["model"]["merges"][0] = 7; }),
            "tokenizer.json: model.merges[0]: expected a string or an array");
}

TEST(TokenizerFile, HasAddedTokensThatContradictTheVocabulary) {
  EXPECT_EQ(error_with([](json& t) { t["added_tokens"][0]["content"] = "ab"; }),
            "tokenizer.json: added_tokens[0]: id 258, but model.vocab gives \"ab\" the id 256");
  EXPECT_EQ(error_with([](json& t) { t["added_tokens"][0]["id"] = 5; }),
            "tokenizer.json: added_tokens[0]: a second token with id 5");
  EXPECT_EQ(error_with([](json& t) { t["added_tokens"][1]["content"] = "<end>"; }),
            "tokenizer.json: added_tokens[1]: \"<end>\" is listed twice");
  EXPECT_EQ(error_with([](json& t) { t["added_tokens"][0]["content"] = ""; }),
            "tokenizer.json: added_tokens[0].content: 0 bytes; limit: 1 to 1024");
  EXPECT_EQ(error_with([](json& t) { t["added_tokens"][0]["content"] = std::string(1025, 'x'); }),
            "tokenizer.json: added_tokens[0].content: 1025 bytes; limit: 1 to 1024");
}

TEST(TokenizerFile, AsksForUnsupportedFeatures) {
  EXPECT_EQ(
      error_with([](json& t) { t["model"]["type"] = "WordPiece"; }),
      "tokenizer.json: model.type: \"WordPiece\" is not supported; supported: BPE that is byte-level or "
      "has byte_fallback");
  EXPECT_EQ(error_with([](json& t) { t["model"]["byte_fallback"] = true; }),
            "tokenizer.json: pre_tokenizer.type: \"ByteLevel\" is not supported; supported: Metaspace");
  EXPECT_EQ(
      error_with([](json& t) { t["model"]["end_of_word_suffix"] = "</w>"; }),
      "tokenizer.json: model.end_of_word_suffix: not supported; supported: BPE that is byte-level or has "
      "byte_fallback");
  EXPECT_EQ(error_with([](json& t) { t["model"]["dropout"] = 0.1; }),
            "tokenizer.json: model.dropout: not supported: encoding would be random");
  EXPECT_EQ(
      error_with([](json& t) {
        t["normalizer"] = {{"type", "NFKC"}};
      }),
      "tokenizer.json: normalizer.type: \"NFKC\" is not supported; supported: Sequence, NFC, Prepend and "
      "Replace");
  EXPECT_EQ(error_with([](json& t) {
              t["pre_tokenizer"] = {{"type", "Metaspace"}};
            }),
            "tokenizer.json: pre_tokenizer.type: \"Metaspace\" is not supported; "
            "supported: Sequence, Split, ByteLevel, Digits and Punctuation");
  EXPECT_EQ(error_with([](json& t) { t["pre_tokenizer"] = nullptr; }),
            "tokenizer.json: has no \"pre_tokenizer\"");
  EXPECT_EQ(error_with([](json& t) {
              t["pre_tokenizer"] = {{"type", "Digits"}, {"individual_digits", true}};
            }),
            "tokenizer.json: pre_tokenizer: has no ByteLevel; only byte-level BPE is supported");
  EXPECT_EQ(error_with([](json& t) {
              t["decoder"] = {{"type", "WordPiece"}};
            }),
            "tokenizer.json: decoder.type: \"WordPiece\" is not supported; supported: ByteLevel");
  EXPECT_EQ(error_with([](json& t) {
              t["post_processor"] = {{"type", "BertProcessing"}};
            }),
            "tokenizer.json: post_processor.type: \"BertProcessing\" is not supported; "
            "supported: Sequence, TemplateProcessing and ByteLevel");
}

json split_with(const json& pattern, const char* behaviour = "Isolated") {
  const json split = {{"type", "Split"}, {"pattern", pattern}, {"behavior", behaviour}, {"invert", false}};
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
}

TEST(TokenizerFile, HasBadPatterns) {
  const std::string field = "tokenizer.json: pre_tokenizer.pretokenizers[0].";
  EXPECT_THAT(error_with([](json& t) {
                t["pre_tokenizer"] = split_with({{"Regex", "a("}});
              }),
              StartsWith(field + "pattern: pattern \"a(\": byte 2: '(' without ')'"));
  EXPECT_THAT(error_with([](json& t) {
                t["pre_tokenizer"] = split_with({{"Regex", "\\C"}});
              }),
              StartsWith(field + "pattern: pattern \"\\\\C\": byte 2: \\C is not supported"));
  EXPECT_THAT(error_with([](json& t) {
                t["pre_tokenizer"] = split_with({{"Regex", "((a{999}){999}){999}"}});
              }),
              HasSubstr("does not compile: regular expression is too large"));
  EXPECT_EQ(error_with([](json& t) {
              t["pre_tokenizer"] = split_with({{"Regex", std::string(70'000, 'a')}});
            }),
            field + "pattern: a pattern of 70000 bytes; limit: 65536");
  EXPECT_EQ(error_with([](json& t) {
              t["pre_tokenizer"] = split_with({{"Wildcard", "*"}});
            }),
            field + "pattern: has no \"String\"");
  EXPECT_EQ(error_with([](json& t) {
              t["pre_tokenizer"] = split_with({{"String", "a"}}, "Dropped");
            }),
            field +
                "behavior: \"Dropped\" is none of Isolated, Removed, Contiguous, MergedWithPrevious, "
                "MergedWithNext");
}

TEST(TokenizerFile, HasAPatternThatBacktracksForEver) {
  json tokenizer = tiny::tokenizer_json();
  tokenizer["pre_tokenizer"] = split_with({{"Regex", "(a+)+$"}});
  const Tokenizer loaded = tiny::load(tokenizer);
  EXPECT_THAT(
      tiny::error_of([&] { loaded.encode(std::string(10'000, 'a') + "b", false); }),
      StartsWith("tokenizer.json: pre_tokenizer.pretokenizers[0].pattern: pattern \"(a+)+$\" on a text of "
                 "10001 bytes: "));
}

json template_with(const json& single) {
  return {
      {"type", "TemplateProcessing"},
      {"single", single},
      {"special_tokens",
       {{"<end>", {{"id", "<end>"}, {"ids", {tiny::kEnd}}}}, {"<no>", {{"id", "<no>"}, {"ids", {999}}}}}}};
}
const json kText = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
const json kEndToken = {{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}};

TEST(TokenizerFile, HasBadTemplates) {
  const auto error = [](const json& single) {
    return error_with([&](json& t) { t["post_processor"] = template_with(single); });
  };
  EXPECT_EQ(error(json::array({kEndToken})),
            "tokenizer.json: post_processor.single: has the text 0 times, expected once");
  EXPECT_EQ(error({kText, kText}),
            "tokenizer.json: post_processor.single: has the text 2 times, expected once");
  EXPECT_EQ(error({kText, {{"SpecialToken", {{"id", "<bos>"}}}}}),
            "tokenizer.json: post_processor.special_tokens: has no \"<bos>\"");
  EXPECT_EQ(error({kText, {{"SpecialToken", {{"id", "<no>"}}}}}),
            "tokenizer.json: post_processor.special_tokens.\"<no>\".ids[0]: no token has the id 999");
  EXPECT_EQ(error(json(300, kEndToken)), "tokenizer.json: post_processor.single: adds more than 256 tokens");
}

TEST(TokenizerFile, NamesAnUnknownTokenInItsConfig) {
  EXPECT_EQ(tiny::error_of(
                [] { Tokenizer::from_json(tiny::tokenizer_json().dump(), R"({"eos_token": "<none>"})"); }),
            "tokenizer_config.json: eos_token: \"<none>\" is not in the vocabulary");
}

TEST(TokenizerFile, SurvivesAnyChangeOfOneByte) {
  const std::string text = tiny::tokenizer_json().dump();
  for (std::size_t i = 0; i < text.size(); i += 5) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    try {
      Tokenizer::from_json(changed).encode("abc <end> x", true);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    }
  }
}

}  // namespace
}  // namespace serval
