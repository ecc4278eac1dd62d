// Properties of encoding and decoding that hold for all bytes and all tokenizers.
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "models/tokenizer/stream_decoder.h"
#include "models/tokenizer/utf8.h"
#include "tests/tokenizer/golden_data.h"
#include "tests/tokenizer/tiny_tokenizer.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

const std::string kFffd(kReplacementCharacter);

std::string lossy(std::string_view text) {
  std::string storage;
  return std::string(utf8_lossy(text, &storage));
}

// Random bytes that are almost UTF-8: truncated, joined and changed characters of all lengths, and noise.
std::string random_bytes(std::mt19937& random, std::size_t size) {
  const std::string kSeeds[] = {
      "a", " ", "\n", "é", "中", "👩", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC0\x80", "<|eot_id|>"};
  std::string bytes;
  while (bytes.size() < size) {
    std::string piece = kSeeds[random() % std::size(kSeeds)];
    if (random() % 3 == 0) piece.resize(random() % (piece.size() + 1));
    if (random() % 4 == 0) piece += static_cast<char>(random() % 256);
    bytes += piece;
  }
  return bytes;
}

TEST(Utf8, ReplacesEachMaximalInvalidSubpart) {
  const std::pair<std::string, std::string> kCases[] = {
      {"", ""},
      {"aé中👩", "aé中👩"},
      {"a\x80z", "a" + kFffd + "z"},
      {"\x80\x80", kFffd + kFffd},
      {"\xC3", kFffd},
      {"\xC3z", kFffd + "z"},
      {"\xC0\xAF", kFffd + kFffd},              // overlong
      {"\xE0\x80\xAF", kFffd + kFffd + kFffd},  // overlong
      {"\xE4\xB8", kFffd},                      // truncated
      {"\xE4\xB8z", kFffd + "z"},
      {"\xF0\x9F\x91", kFffd},
      {"\xF0\x9F\x91z", kFffd + "z"},
      {"\xED\xA0\x80", kFffd + kFffd + kFffd},              // a surrogate
      {"\xF4\x90\x80\x80", kFffd + kFffd + kFffd + kFffd},  // above U+10FFFF
      {"\xFF\xFE", kFffd + kFffd},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
       "A",
       kFffd + kFffd + kFffd + kFffd + "A"},  // Unicode 16, table 3-11
  };
  for (const auto& [bytes, text] : kCases) EXPECT_EQ(lossy(bytes), text) << json(text);
}

TEST(Utf8, GivesTheSameInAnyPieces) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = random_bytes(random, 40);
    Utf8Stream stream;
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = 1 + random() % 3;
      const std::string piece = stream.push(std::string_view(bytes).substr(at, size));
      EXPECT_EQ(lossy(piece), piece);
      text += piece;
      at += size;
    }
    EXPECT_EQ(text + stream.flush(), lossy(bytes));
  }
}

TEST(Encoding, TurnsInvalidUtf8IntoReplacementCharactersFirst) {
  std::mt19937 random(2);
  for (const std::string& name : golden::kNames) {
    const Tokenizer tokenizer = golden::tokenizer(name);
    for (int i = 0; i < 300; ++i) {
      const std::string bytes = random_bytes(random, 1 + random() % 100);
      EXPECT_EQ(tokenizer.encode(bytes, true), tokenizer.encode(lossy(bytes), true));
      EXPECT_EQ(tokenizer.encode_plain(bytes), tokenizer.encode_plain(lossy(bytes)));
    }
  }
}

TEST(Encoding, DecodesToTheSameText) {
  std::mt19937 random(3);
  for (const char* name : {"llama3", "gpt2"}) {
    const Tokenizer tokenizer = golden::tokenizer(name);
    for (int i = 0; i < 500; ++i) {
      const std::string text = lossy(random_bytes(random, random() % 200));
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false), false), text);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode_plain(text), true), text);
    }
  }
}

TEST(Encoding, NeverMakesASpecialTokenOfPlainText) {
  std::mt19937 random(4);
  for (const std::string& name : golden::kNames) {
    const Tokenizer tokenizer = golden::tokenizer(name);
    std::vector<std::string> pieces = {"<", "|", ">", " ", "a", "<|"};
    for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (tokenizer.is_special(id)) pieces.emplace_back(tokenizer.token_bytes(id));
    }
    const auto unknown = tokenizer.find("<unk>");
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (int j = 0; j < 6; ++j) text += pieces[random() % pieces.size()];
      for (const std::int32_t id : tokenizer.encode_plain(text)) {
        EXPECT_TRUE(!tokenizer.is_special(id) || id == unknown) << text;
      }
    }
  }
}

TEST(Encoding, KeepsSpecialTokensOutOfPlainTextEvenIfMergesOrWholeWordsLeadToThem) {
  json file = tiny::tokenizer_json();
  file["added_tokens"].push_back(
      {{"id", tiny::kAbc}, {"content", "abc"}, {"special", true}, {"normalized", false}});
  for (const bool ignore_merges : {false, true}) {
    file["model"]["ignore_merges"] = ignore_merges;
    const Tokenizer tokenizer = tiny::load(file);
    EXPECT_THAT(tokenizer.encode("abc", false), ElementsAre(tiny::kAbc));
    EXPECT_THAT(tokenizer.encode_plain("abc"), ElementsAre(tiny::kAb, 'c'));
    EXPECT_THAT(tokenizer.encode_plain("<tool>"), ElementsAre(tiny::kTool));
    const Ids as_text = {tiny::kTool};
    EXPECT_EQ(tokenizer.encode_plain("<tool>", as_text), Ids({'<', 't', 'o', 'o', 'l', '>'}));
  }
}

TEST(Encoding, TakesAMegabyteWithoutASpace) {
  constexpr std::size_t kSize = 1 << 20;
  std::mt19937 random(5);
  std::string letters;
  while (letters.size() < kSize) letters += static_cast<char>('a' + random() % 26);
  for (const char* name : {"llama3", "gpt2"}) {
    const Tokenizer tokenizer = golden::tokenizer(name);
    for (const std::string& text :
         {letters, std::string(kSize, 'a'), std::string(kSize, ' '), std::string(kSize, '\n')}) {
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false), false), text);
    }
  }
}

TEST(Encoding, IsTheSameOnSeveralThreads) {
  const Tokenizer tokenizer = golden::tokenizer("llama3");
  const std::vector<std::string> strings = golden::read("strings.json");
  std::vector<std::vector<Ids>> results(3);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < 300; ++i) result.push_back(tokenizer.encode(strings[i], true));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Decoding, SkipsIdsWithoutAToken) {
  const Tokenizer tokenizer = tiny::load(tiny::tokenizer_json());
  EXPECT_EQ(tokenizer.decode(Ids{'a', -1, 260, INT32_MAX, INT32_MIN, 'b'}, false), "ab");
  EXPECT_FALSE(tokenizer.has(260));
  EXPECT_EQ(tokenizer.token_bytes(-1), "");
}

TEST(Decoding, LeavesOutSpecialTokensWhenAsked) {
  const Tokenizer tokenizer = tiny::load(tiny::tokenizer_json());
  const Ids ids = {'a', tiny::kEnd, tiny::kTool};
  EXPECT_EQ(tokenizer.decode(ids, false), "a<end><tool>");
  EXPECT_EQ(tokenizer.decode(ids, true), "a<tool>");
}

TEST(Decoding, GivesAddedTokensBackAsTheyAreWritten) {
  json file = tiny::tokenizer_json();
  for (const char* content : {"café", "Ġx", "中文 x"}) {
    file["added_tokens"][1]["content"] = content;
    const Tokenizer tokenizer = tiny::load(file);
    EXPECT_EQ(tokenizer.token_bytes(tiny::kTool), content);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(content, false), false), content);
  }
}

TEST(Decoding, StreamsNoHalfCharacters) {
  StreamDecoder decoder(tiny::load(tiny::tokenizer_json()), false);
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x91), "");
  EXPECT_EQ(decoder.push(0xA9), "👩");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push(tiny::kAb), kFffd + "ab");
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.flush(), kFffd);
  EXPECT_EQ(decoder.flush(), "");
}

TEST(Vocabulary, FindsTokensAsTheFileWritesThem) {
  const Tokenizer tokenizer = golden::tokenizer("llama3");
  EXPECT_EQ(tokenizer.find("Ġ"), tokenizer.encode(" ", false)[0]);
  EXPECT_EQ(tokenizer.find("<|eot_id|>"), tokenizer.encode("<|eot_id|>", false)[0]);
  EXPECT_EQ(tokenizer.find("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.bos_id(), tokenizer.find("<|begin_of_text|>"));
  EXPECT_EQ(tokenizer.eos_id(), tokenizer.find("<|eot_id|>"));
}

TEST(Vocabulary, FindsTokensThatNoBytesSpell) {
  json file = tiny::tokenizer_json();
  file["model"]["vocab"]["日本"] = 999;
  const Tokenizer tokenizer = tiny::load(file);
  EXPECT_EQ(tokenizer.find("日本"), 999);
  EXPECT_EQ(tokenizer.find("日"), std::nullopt);
}

TEST(Vocabulary, MayHaveHoles) {
  json file = tiny::tokenizer_json();
  file["added_tokens"][1]["id"] = 1000;
  const Tokenizer tokenizer = tiny::load(file);
  EXPECT_EQ(tokenizer.vocab_size(), 1001);
  EXPECT_FALSE(tokenizer.has(500));
  EXPECT_THAT(tokenizer.encode("<tool>", false), ElementsAre(1000));
}

}  // namespace
}  // namespace serval
