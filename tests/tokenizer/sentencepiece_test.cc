// SentencePiece's BPE, from tokenizer.model and from tokenizer.json.
#include "models/tokenizer/sentencepiece.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "models/tokenizer/stream_decoder.h"
#include "tests/gguf/token_goldens.h"
#include "tests/tokenizer/tiny_tokenizer.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using tiny::error_of;
using Ids = std::vector<std::int32_t>;
using Type = SentencePiece::Type;

const std::filesystem::path& folder() {
  static const std::filesystem::path path = gguf_data() / "llama";
  return path;
}

std::string model_file() {
  return read_text_file(folder() / "tokenizer.model", kMaxTokenizerFileBytes);
}
Tokenizer of_model_file() {
  return make_sentencepiece_tokenizer(parse_sentencepiece_file(model_file(), "tokenizer.model"));
}
json tokenizer_json() {
  return parse_json_file(folder() / "tokenizer.json", kMaxTokenizerFileBytes);
}

TEST(SentencePieceModel, EncodesAsSentencePiece) {
  expect_golden_tokens(of_model_file(), "llama");
}

TEST(SentencePieceModel, DecodesToTheTextAgain) {
  const Tokenizer tokenizer = of_model_file();
  for (const std::string& text : golden_strings())
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true), true), text);
}

TEST(SentencePieceJson, EncodesAsTokenizers) {
  expect_golden_tokens(Tokenizer::load(folder()), "llama.json");
}

TEST(SentencePieceJson, AddsASpaceOnlyBeforeTheFirstTextIfMetaspaceSaysSo) {
  json tree = tokenizer_json();
  tree["normalizer"] = nullptr;
  tree["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  const Tokenizer tokenizer = tiny::load(tree);
  expect_golden_tokens(tokenizer, "llama.metaspace");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("one</s>two", false), false), "one</s>two");
  EXPECT_EQ(Tokenizer::load(folder()).decode(Tokenizer::load(folder()).encode("one</s>two", false), false),
            "one</s> two");
}

// A model with space, "a" to "c", "ab", "bc", " a" and the byte pieces.
SentencePieceModel small_model() {
  SentencePieceModel model;
  model.source = "small";
  model.pieces = {{"<unk>", 0, Type::kUnknown}, {"<s>", 0, Type::kControl}, {"</s>", 0, Type::kControl}};
  for (int byte = 0; byte < 256; ++byte)
    model.pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, Type::kByte});
  for (const auto& [text, score] : {std::pair("▁", -9.0F),
                                    {"a", -9.0F},
                                    {"b", -9.0F},
                                    {"c", -9.0F},
                                    {"bc", -1.0F},
                                    {"ab", -2.0F},
                                    {"▁a", -3.0F},
                                    {"aa", -4.0F}}) {
    model.pieces.push_back({text, score, Type::kNormal});
  }
  model.bos = 1;
  model.eos = 2;
  return model;
}
constexpr int kSpace = 259, kA = 260, kB = 261, kBc = 263, kSpaceA = 265, kAa = 266;

TEST(SentencePiece, MergesTheBestAndLeftmostPairFirst) {
  const Tokenizer tokenizer = make_sentencepiece_tokenizer(small_model());
  EXPECT_THAT(tokenizer.encode("abc", false), ElementsAre(kSpaceA, kBc));
  SentencePieceModel without_space = small_model();
  without_space.adds_space = AddedSpace::kNever;
  EXPECT_THAT(make_sentencepiece_tokenizer(without_space).encode("aaa", false), ElementsAre(kAa, kA));
}

TEST(SentencePiece, WritesAnUnknownCharacterAsItsBytes) {
  const Tokenizer tokenizer = make_sentencepiece_tokenizer(small_model());
  EXPECT_THAT(tokenizer.encode("bé", true), ElementsAre(1, kSpace, kB, 3 + 0xC3, 3 + 0xA9));
  EXPECT_EQ(tokenizer.decode(Ids{kSpace, kB, 3 + 0xC3, 3 + 0xA9}, true), "bé");
  EXPECT_EQ(tokenizer.token_bytes(kSpaceA), " a");
}

// A stream continues a text, so the space before its first word must be kept.
TEST(SentencePiece, StreamsTheSpaceThatDecodeRemoves) {
  const Tokenizer tokenizer = make_sentencepiece_tokenizer(small_model());
  StreamDecoder decoder(tokenizer, true);
  EXPECT_EQ(decoder.push(kSpaceA), " a");
  EXPECT_EQ(decoder.push(3 + 0xC3), "");
  EXPECT_EQ(decoder.push(3 + 0xA9), "é");
  EXPECT_EQ(tokenizer.decode(Ids{kSpaceA}, true), "a");
}

TEST(SentencePiece, FindsUserDefinedPiecesBeforeAnythingElse) {
  SentencePieceModel model = small_model();
  model.pieces.push_back({"b▁b", 0, Type::kUserDefined});
  EXPECT_THAT(make_sentencepiece_tokenizer(model).encode("ab b", false), ElementsAre(kSpaceA, 267));
}

TEST(SentencePiece, RefusesPiecesByNumber) {
  const auto refusal = [](const auto& spoil) {
    SentencePieceModel model = small_model();
    spoil(model);
    return error_of([&] { make_sentencepiece_tokenizer(model); });
  };
  EXPECT_EQ(refusal([](auto& m) { m.pieces.clear(); }), "small: 0 pieces; limit: 1 to 1048576");
  EXPECT_EQ(refusal([](auto& m) { m.pieces[260].text = "\xFF"; }), "small: piece 260: not UTF-8");
  EXPECT_EQ(refusal([](auto& m) { m.pieces[260].text = std::string(257, 'x'); }),
            "small: piece 260: 257 bytes; limit: 1 to 256");
  EXPECT_EQ(refusal([](auto& m) { m.pieces[260].score = std::nanf(""); }),
            "small: piece 260: its score is not a number");
  EXPECT_EQ(refusal([](auto& m) { m.pieces[260].text = "b"; }), "small: piece 261: \"b\" appears twice");
  EXPECT_EQ(refusal([](auto& m) { m.pieces[70].type = Type::kUnused; }),
            "small: model.vocab: has no token <0x43>, which byte_fallback needs");
  EXPECT_EQ(refusal([](auto& m) { m.bos = 267; }), "small: BOS: piece 267; limit: 0 to 266");
}

TEST(SentencePieceFile, ReadsOrRefusesEveryTruncatedFile) {
  const std::string file = model_file();
  for (std::size_t size = 0; size < file.size(); size += size < 200 || size + 200 > file.size() ? 1 : 97) {
    try {
      parse_sentencepiece_file(file.substr(0, size), "file");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("file: "));
    }
  }
  EXPECT_THAT(error_of([&] { parse_sentencepiece_file("", "file"); }),
              HasSubstr("trainer_spec or normalizer_spec is missing"));
  EXPECT_THAT(error_of([&] { parse_sentencepiece_file("{\"a\": 1}", "file"); }), HasSubstr("file: "));
}

// Fields of a protocol buffer message: a varint field whose tag takes two bytes, and a field of bytes.
std::string varint_field(unsigned number, char value) {
  const unsigned low = (number << 3 & 0x7F) | 0x80;
  return {static_cast<char>(low), static_cast<char>(number >> 4), value};
}
std::string bytes_field(int number, const std::string& bytes) {
  return std::string{static_cast<char>((number << 3) | 2), static_cast<char>(bytes.size())} + bytes;
}

TEST(SentencePieceFile, NamesUnsupportedSettings) {
  const auto refusal = [](const std::string& trainer, const std::string& normalizer) {
    return error_of(
        [&] { parse_sentencepiece_file(bytes_field(2, trainer) + bytes_field(3, normalizer), "file"); });
  };
  const std::string bpe = {3 << 3, 2}, fallback = varint_field(35, 1), keeps_spaces = {4 << 3, 0};
  EXPECT_EQ(refusal("", keeps_spaces),
            "file: trainer_spec.model_type: 1 is not supported; supported: 2 (BPE)");
  EXPECT_EQ(refusal(bpe, keeps_spaces), "file: trainer_spec.byte_fallback: false is not supported");
  EXPECT_EQ(refusal(bpe + fallback, ""),
            "file: normalizer_spec.remove_extra_whitespaces: true is not supported");
  EXPECT_EQ(refusal(bpe + fallback, keeps_spaces + bytes_field(2, "map")),
            "file: normalizer_spec.precompiled_charsmap: not supported; supported: models without it");
  EXPECT_NO_THROW(
      parse_sentencepiece_file(bytes_field(2, bpe + fallback) + bytes_field(3, keeps_spaces), "file"));
}

TEST(SentencePieceJson, RefusesStepsThatItDoesNotKnow) {
  const auto refusal = [](const char* field, const json& value) {
    json tree = tokenizer_json();
    tree[field] = value;
    return error_of([&] { tiny::load(tree); });
  };
  EXPECT_EQ(refusal("normalizer", {{"type", "NFKC"}}),
            "tokenizer.json: normalizer.type: \"NFKC\" is not supported; supported: Sequence, NFC, Prepend "
            "and Replace");
  EXPECT_EQ(refusal("pre_tokenizer", {{"type", "Whitespace"}}),
            "tokenizer.json: pre_tokenizer.type: \"Whitespace\" is not supported; supported: Metaspace");
  EXPECT_EQ(refusal("decoder", {{"type", "WordPiece"}}),
            "tokenizer.json: decoder.type: \"WordPiece\" is not supported; supported: Sequence, Replace, "
            "ByteFallback, Fuse, "
            "Strip and Metaspace");
}

}  // namespace
}  // namespace serval
