// Tokenizers in GGUF files give the ids of `tokenizers` and `sentencepiece` on 2,200 strings per family.
#include "models/gguf/gguf_tokenizer.h"

#include "tests/gguf/gguf_bytes.h"
#include "tests/gguf/token_goldens.h"

namespace serval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GgufFamily : public testing::TestWithParam<const char*> {};

TEST_P(GgufFamily, EncodesAsTheOriginal) {
  const GgufFile file(gguf_data() / (std::string(GetParam()) + ".gguf"));
  expect_golden_tokens(read_gguf_tokenizer(file.fields()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Families, GgufFamily,
                         testing::Values("llama-bpe", "qwen2", "smollm", "gpt-2", "tekken", "llama"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

Tokenizer tokenizer_of(const GgufBytes& made) {
  const std::string file = made.bytes();
  return read_gguf_tokenizer(parse_gguf(std::as_bytes(std::span(file)), "file").fields);
}

// "a" to "c" and two merges. Token 5 is a control token, 6 is unused, and 7 is user-defined.
GgufBytes small_bpe() {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "llama-bpe");
  file.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "abc", "<end>", "[PAD]", "<tool>"});
  file.i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 3, 5, 4});
  return file.texts("tokenizer.ggml.merges", {"a b", "ab c"});
}

TEST(GgufTokenizer, KnowsControlAndUserDefinedTokens) {
  const Tokenizer tokenizer = tokenizer_of(small_bpe());
  EXPECT_THAT(tokenizer.encode("abc<end>ab<tool>", false), ElementsAre(4, 5, 3, 7));
  EXPECT_TRUE(tokenizer.is_special(5));
  EXPECT_FALSE(tokenizer.is_special(7));
  EXPECT_TRUE(tokenizer.is_added(7));
  EXPECT_FALSE(tokenizer.has(6));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{4, 5, 7}, true), "abc<tool>");
}

TEST(GgufTokenizer, AddsBosAndEosIfTheFileOrTheFamilyAsksForThem) {
  const auto ids = [](const GgufBytes& file) { return tokenizer_of(file).encode("c", true); };
  EXPECT_THAT(ids(small_bpe()), ElementsAre(2));
  EXPECT_THAT(ids(small_bpe().u32("tokenizer.ggml.bos_token_id", 5)),
              ElementsAre(5, 2));  // as llama-bpe does
  EXPECT_THAT(
      ids(small_bpe().u32("tokenizer.ggml.bos_token_id", 5).boolean("tokenizer.ggml.add_bos_token", false)),
      ElementsAre(2));
  EXPECT_THAT(
      ids(small_bpe().u32("tokenizer.ggml.eos_token_id", 5).boolean("tokenizer.ggml.add_eos_token", true)),
      ElementsAre(2, 5));
  EXPECT_EQ(tokenizer_of(small_bpe().u32("tokenizer.ggml.eos_token_id", 5)).eos_id(), 5);
}

TEST(GgufTokenizer, RefusesByName) {
  const auto refusal = [](const GgufBytes& file) { return error_of([&] { tokenizer_of(file); }); };
  EXPECT_EQ(refusal(small_bpe().without("tokenizer.ggml.model").text("tokenizer.ggml.model", "t5")),
            "file: tokenizer.ggml.model: \"t5\" is not supported; supported: gpt2 and llama");
  EXPECT_THAT(refusal(small_bpe().without("tokenizer.ggml.pre").text("tokenizer.ggml.pre", "falcon")),
              HasSubstr("file: tokenizer.ggml.pre: \"falcon\" is not supported; supported: llama-bpe, "));
  EXPECT_EQ(refusal(small_bpe().without("tokenizer.ggml.tokens")), "file: tokenizer.ggml.tokens: missing");
  EXPECT_EQ(refusal(small_bpe().without("tokenizer.ggml.merges")), "file: tokenizer.ggml.merges: missing");
  EXPECT_EQ(refusal(small_bpe().without("tokenizer.ggml.token_type").i32s("tokenizer.ggml.token_type", {1})),
            "file: tokenizer.ggml.token_type: 1 types for 8 tokens");
  EXPECT_EQ(refusal(small_bpe().without("tokenizer.ggml.merges").texts("tokenizer.ggml.merges", {"a x"})),
            "file: tokenizer: model.merges[0]: \"x\" is not in model.vocab");
  EXPECT_EQ(refusal(small_bpe().u32("tokenizer.ggml.bos_token_id", 8)),
            "file: tokenizer.ggml.bos_token_id: found 8, expected an integer from 0 to 7");
  EXPECT_EQ(refusal(small_bpe().boolean("tokenizer.ggml.add_sep_token", true)),
            "file: tokenizer.ggml.add_sep_token: supported: tokenizers without it");
  EXPECT_EQ(refusal(small_bpe().i32s("tokenizer.ggml.suppress_tokens", {3})),
            "file: tokenizer.ggml.suppress_tokens: supported: tokenizers without it");
  EXPECT_NO_THROW(tokenizer_of(small_bpe().boolean("tokenizer.ggml.add_sep_token", false)));
  GgufBytes twice = small_bpe();
  twice.without("tokenizer.ggml.tokens").without("tokenizer.ggml.token_type");
  EXPECT_EQ(refusal(twice.texts("tokenizer.ggml.tokens", {"a", "a"})),
            "file: tokenizer.ggml.tokens: \"a\" appears twice");
}

TEST(GgufChatTemplate, IsReadFromTheFile) {
  const Tokenizer tokenizer = tokenizer_of(small_bpe());
  const auto of = [&](const GgufBytes& made) {
    const std::string file = made.bytes();
    return read_gguf_chat_template(parse_gguf(std::as_bytes(std::span(file)), "dir/file.gguf").fields,
                                   tokenizer);
  };
  const ChatTemplate chat = of(GgufBytes().text("tokenizer.chat_template", "{{ messages[0].content }}<end>"));
  EXPECT_EQ(chat.render(std::vector<ChatTurn>{{"user", "ab"}}, true), "ab<end>");
  EXPECT_EQ(chat.name(), "file.gguf");
  EXPECT_EQ(
      error_of([&] { of(GgufBytes()); }),
      "dir/file.gguf: tokenizer.chat_template: missing; choose with --chat-template llama3|chatml|FILE");
}

}  // namespace
}  // namespace serval
