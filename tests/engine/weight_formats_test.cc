// Which types of weights a run has, by its options and by what the checkpoint stores.
#include "engine/runtime/weight_formats.h"

#include <fmt/format.h>
#include <stdexcept>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr WeightFormats kBf16;
constexpr WeightFormats kLayers = {.layers = DType::kE4M3};
constexpr WeightFormats kLmHead = {.lm_head = DType::kE4M3};
constexpr WeightFormats kAll = {.layers = DType::kE4M3, .lm_head = DType::kE4M3};
constexpr WeightFormats kInt4 = {.layers = DType::kInt4G64};

// A directory whose matrices are stored in these types.
class FilesOf final : public ModelFiles {
 public:
  explicit FilesOf(StoredFormats stored) : stored_(std::move(stored)) {}

  std::shared_ptr<const Model> model() const override { unused(); }
  std::filesystem::path path() const override { return "model"; }
  const char* format() const override { unused(); }
  int64_t stored_bytes() const override { unused(); }
  std::string weight_format() const override { unused(); }
  bool has_tokenizer() const override { unused(); }
  Tokenizer tokenizer() const override { unused(); }
  std::filesystem::path tokenizer_path() const override { unused(); }
  ChatTemplate chat_template(const Tokenizer& /*tokenizer*/) const override { unused(); }
  StoredFormats stored_formats() const override { return stored_; }

 private:
  [[noreturn]] static void unused() { throw std::logic_error("not a use of the formats"); }
  std::unique_ptr<const WeightSource> open_weights(NotFinite /*not_finite*/,
                                                   const Model& /*of_run*/) const override {
    unused();
  }

  StoredFormats stored_;
};

ChosenFormats chosen(const EngineOptions& options, StoredFormats stored) {
  const FilesOf files(std::move(stored));
  return choose_formats(options, tiny_untied_config(), &files);
}

TEST(WeightFormats, AutoIsWhatTheCheckpointStores) {
  for (const WeightFormats& stored : {kBf16, kLayers, kLmHead, kAll, kInt4}) {
    for (const char* name : {"", "auto"}) {
      const ChosenFormats found = chosen({.weights = name, .lm_head = name}, {.formats = stored});
      EXPECT_EQ(found.formats, stored);
      EXPECT_EQ(found.notice, "");
    }
  }
  EXPECT_EQ(choose_formats({}, tiny_untied_config(), nullptr).formats, kBf16);  // a preset
}

TEST(WeightFormats, NamesWinOverTheCheckpoint) {
  EXPECT_EQ(chosen({.weights = "bf16"}, {.formats = kAll}).formats, kLmHead);
  EXPECT_EQ(chosen({.weights = "bf16", .lm_head = "bf16"}, {.formats = kAll}).formats, kBf16);
  EXPECT_EQ(chosen({.lm_head = "fp8"}, {.formats = kLayers}).formats, kAll);
  EXPECT_EQ(chosen({.weights = "fp8"}, {.formats = kBf16, .layers_reason = "blocks"}).formats, kLayers);
  EXPECT_EQ(chosen({.weights = "fp8"}, {.formats = kInt4}).formats, kLayers);
  EXPECT_EQ(chosen({.lm_head = "int4:64"}, {.formats = kInt4}).formats,
            (WeightFormats{.layers = DType::kInt4G64, .lm_head = DType::kInt4G64}));
  EXPECT_THROW(chosen({.weights = "fp9"}, {.formats = kBf16}), Error);
}

TEST(WeightFormats, Int4HasAGroup) {
  LlamaConfig config = tiny_untied_config();
  config.hidden_size = config.intermediate_size = 384;
  const auto layers = [&](const char* name) {
    return choose_formats({.weights = name}, config, nullptr).formats.layers;
  };
  EXPECT_EQ(layers("int4"), DType::kInt4G128);
  EXPECT_EQ(layers("int4:128"), DType::kInt4G128);
  EXPECT_EQ(layers("int4:64"), DType::kInt4G64);
  EXPECT_EQ(layers("int4:32"), DType::kInt4G32);
}

// Without names of files and kernels: one line that says what to change.
TEST(WeightFormats, ColumnsThatAreNotWholeGroupsAreRefused) {
  const auto refusal = [](const EngineOptions& options) {
    try {
      choose_formats(options, tiny_untied_config(), nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_EQ(
      refusal({.weights = "int4"}),
      "weights: int4:128: model.layers.0.self_attn.q_proj.weight has 64 columns; expected a multiple of 128");
  EXPECT_EQ(
      refusal({.weights = "int4:64"}),
      "weights: int4:64: model.layers.0.mlp.down_proj.weight has 176 columns; expected a multiple of 64");
  EXPECT_EQ(refusal({.lm_head = "int4"}),
            "lm_head: int4:128: lm_head.weight has 64 columns; expected a multiple of 128");
}

TEST(WeightFormats, TheNoticeSaysWhyAutoDequantises) {
  const auto notice = [](const EngineOptions& options, const StoredFormats& stored) {
    return chosen(options, stored).notice;
  };
  const StoredFormats mixed = {.formats = kBf16, .layers_reason = "q_proj is BF16"};
  EXPECT_EQ(notice({}, mixed), "model: stored codes are dequantised to bf16: q_proj is BF16");
  EXPECT_EQ(notice({.weights = "bf16"}, mixed), "");  // it was asked for
  EXPECT_EQ(notice({.weights = "fp8"}, mixed), "");
  EXPECT_EQ(notice({}, {.formats = kBf16, .layers_reason = "one", .lm_head_reason = "two"}),
            "model: stored codes are dequantised to bf16: one; two");
}

TEST(WeightFormats, RunsThatHaveBf16OnlyDequantise) {
  const auto expect_bf16 = [](const EngineOptions& options, const char* reason) {
    const ChosenFormats found = chosen(options, {.formats = kAll});
    EXPECT_EQ(found.formats, kBf16);
    EXPECT_EQ(found.notice, fmt::format("model: stored codes are dequantised to bf16: {}", reason));
  };
  expect_bf16({.backend = "torch"}, "backend torch has bf16");
  expect_bf16({.gpus = {0, 1}}, "weights of 8 and 4 bits run on 1 GPU; gpus: 2");
  EXPECT_EQ(chosen({.gpus = {1}}, {.formats = kAll}).formats, kAll);
}

TEST(WeightFormats, PassesOfAnyNumberOfTokensKeep4Bits) {
  EngineOptions of_17_sequences, of_512_tokens;
  of_17_sequences.max_sequences = 17;
  of_512_tokens.max_batch_tokens = 512;
  for (const EngineOptions& options : {of_17_sequences, of_512_tokens}) {
    const ChosenFormats found = chosen(options, {.formats = kInt4});
    EXPECT_EQ(found.formats, kInt4);
    EXPECT_EQ(found.notice, "");
  }
}

TEST(WeightFormats, RandomWeightsAreNotThoseOfTheCheckpoint) {
  EngineOptions options;
  options.random_weights = 1;
  const ChosenFormats found = chosen(options, {.formats = kAll});
  EXPECT_EQ(found.formats, kBf16);
  EXPECT_EQ(found.notice, "");
}

TEST(WeightFormats, AProgramThatIsMissingIsNamed) {
  EngineOptions options;
  options.program = "/nowhere/program";
  try {
    chosen(options, {.formats = kAll});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/program"));
  }
  EXPECT_EQ(chosen(options, {.formats = kBf16}).formats, kBf16);  // not read
}

}  // namespace
}  // namespace serval::testing
