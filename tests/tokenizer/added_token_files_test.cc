// Added tokens, named tokens and flags from the files beside a tokenizer.
#include "models/tokenizer/added_token_files.h"

#include <filesystem>
#include <fstream>

#include "tests/checkpoint/test_files.h"
#include "tests/tokenizer/tiny_tokenizer.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using tiny::kAb;
using tiny::kAbc;
using tiny::kEnd;
using tiny::kTool;

// Copies a golden's tokenizer into the directory and writes the golden's files beside it.
void write_files(const TempDir& dir, const json& golden) {
  const std::filesystem::path tokenizer = SERVAL_TEST_DATA / std::filesystem::path(golden["tokenizer"]);
  std::filesystem::copy(tokenizer, dir / tokenizer.filename());
  for (const auto& [name, content] : golden["files"].items()) dir.write(name, content.dump());
}

// tools/added_token_goldens.py made the cases, for tokenizer.json and tokenizer.model.
TEST(AddedTokenFiles, AreReadAsTransformersReadsThem) {
  const json goldens =
      parse_json_file(SERVAL_TEST_DATA "/tokenizer/added_tokens.json", kMaxTokenizerFileBytes);
  ASSERT_GT(goldens["cases"].size(), 50U);
  for (const json& golden : goldens["cases"]) {
    const TempDir dir;
    write_files(dir, golden);
    const Tokenizer tokenizer = Tokenizer::load(dir.path());
    for (const json& result : golden["results"]) {
      const auto ids = result["ids"].get<std::vector<std::int32_t>>();
      EXPECT_EQ(tokenizer.encode(result["text"].get<std::string>(), true), ids)
          << golden["files"] << result["text"];
      EXPECT_EQ(tokenizer.decode(ids, true), result["decoded"].get<std::string>())
          << golden["files"] << result["text"];
      EXPECT_EQ(tokenizer.decode(ids, false), result["with_special"].get<std::string>())
          << golden["files"] << result["text"];
    }
  }
}

// Loads the tiny tokenizer with these files beside it.
Tokenizer load_with(const std::map<std::string, json>& files) {
  const TempDir dir;
  dir.write("tokenizer.json", tiny::tokenizer_json().dump());
  for (const auto& [name, content] : files) dir.write(name, content.dump());
  return Tokenizer::load(dir.path());
}

// The error line of loading, without the directory's name.
std::string refusal(const std::map<std::string, json>& files) {
  const std::string line = tiny::error_of([&] { load_with(files); });
  const std::size_t name = line.find_last_of('/', line.find(".json"));
  return name == line.npos ? line : line.substr(name + 1);
}

json decoder(const json& tokens) {
  return {{"added_tokens_decoder", tokens}};
}

TEST(AddedTokenFiles, TheDecodersIdMayLeaveIdsUnused) {
  const Tokenizer tokenizer =
      load_with({{"tokenizer_config.json", decoder({{"300", {{"content", "<far>"}, {"special", true}}}})}});
  EXPECT_THAT(tokenizer.encode("ab<far>", false), ElementsAre(kAb, 300));
  EXPECT_TRUE(tokenizer.is_special(300));
  EXPECT_EQ(tokenizer.vocab_size(), 301);
}

TEST(AddedTokenFiles, ANamedTokenOfTheVocabularyIsSpecial) {
  const Tokenizer tokenizer = load_with({{"tokenizer_config.json", {{"eos_token", "abc"}}}});
  EXPECT_TRUE(tokenizer.is_special(kAbc));
  EXPECT_EQ(tokenizer.eos_id(), kAbc);
}

TEST(AddedTokenFiles, RefusesATokenThatHasTwoIds) {
  EXPECT_EQ(refusal({{"tokenizer_config.json", decoder({{"300", {{"content", "<end>"}}}})}}),
            "tokenizer_config.json: added_tokens_decoder.300: \"<end>\" has the id 300 here, but 258 in the "
            "tokenizer");
  EXPECT_EQ(refusal({{"tokenizer_config.json", decoder({{"300", {{"content", "abc"}}}})}}),
            "tokenizer_config.json: added_tokens_decoder.300: \"abc\" has the id 300 here, but 257 in the "
            "tokenizer");
  EXPECT_EQ(refusal({{"added_tokens.json", {{"<end>", 300}}}}),
            "added_tokens.json: \"<end>\": \"<end>\" has the id 300 here, but 258 in the tokenizer");
  EXPECT_EQ(refusal({{"added_tokens.json", {{"<new>", 301}}},
                     {"tokenizer_config.json", decoder({{"300", {{"content", "<new>"}}}})}}),
            "added_tokens.json: \"<new>\": \"<new>\" has the id 301 here, but 300 in the tokenizer");
}

TEST(AddedTokenFiles, RefusesAnIdThatHasTwoTokens) {
  EXPECT_EQ(refusal({{"tokenizer_config.json", decoder({{"258", {{"content", "<eos>"}}}})}}),
            "tokenizer_config.json: added_tokens_decoder.258: the id 258 is \"<eos>\" here, but \"<end>\" in "
            "the tokenizer");
  EXPECT_EQ(refusal({{"tokenizer_config.json", decoder({{"257", {{"content", "<eos>"}}}})}}),
            "tokenizer_config.json: added_tokens_decoder.257: the id 257 is \"<eos>\" here, but \"abc\" in "
            "the tokenizer");
  EXPECT_EQ(refusal({{"added_tokens.json", {{"<a>", 300}, {"<b>", 300}}}}),
            "added_tokens.json: \"<b>\": a second token with the id 300");
}

TEST(AddedTokenFiles, RefusesBadIdsAndContents) {
  for (const char* key : {"x", "", "-1", "1.0", "1048576", "99999999999999999999"}) {
    EXPECT_THAT(refusal({{"tokenizer_config.json", decoder({{key, {{"content", "<a>"}}}})}}),
                HasSubstr("expected an id from 0 to 1048575"));
  }
  EXPECT_THAT(refusal({{"tokenizer_config.json", decoder({{"300", json::object()}})}}),
              HasSubstr("added_tokens_decoder.300: has no \"content\""));
  EXPECT_THAT(refusal({{"tokenizer_config.json", decoder({{"300", {{"content", ""}}}})}}),
              HasSubstr("content: 0 bytes; limit: 1 to 1024"));
  EXPECT_THAT(refusal({{"added_tokens.json", {{"<a>", -5}}}}),
              HasSubstr("added_tokens.json: \"<a>\": -5 is not in 0"));
  EXPECT_THAT(refusal({{"added_tokens.json", json::array({1})}}), HasSubstr("added_tokens.json: "));
}

TEST(AddedTokenFiles, KeepTokensThatTheTokenizerAlreadyLists) {
  const Tokenizer tokenizer = load_with({{"added_tokens.json", {{"<end>", kEnd}, {"<tool>", kTool}}}});
  EXPECT_TRUE(tokenizer.is_special(kEnd));
  EXPECT_FALSE(tokenizer.is_special(kTool));
}

}  // namespace
}  // namespace serval
