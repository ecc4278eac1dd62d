// The tokens of a pass: the default on a GPU, and the limit.
#include "engine/runtime/pass_size.h"

#include <string>

#include "gtest/gtest.h"

#include "tests/llama/configs.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr uint64_t kMegabyte = 1'000'000;
constexpr ProgramLimits kLimits{.context = 4096, .sequences = 16};

uint32_t tokens_of(const LlamaConfig& model, uint64_t megabytes, const ProgramLimits& limits = kLimits) {
  return gpu_batch_tokens(model, bytes_of_model(model, 1), limits, megabytes * kMegabyte);
}

TEST(GpuBatchTokens, AreManyWhereTheyFit) {
  for (const char* preset : {"llama-3.2-1b", "llama-3.1-8b", "qwen3-8b", "smollm2-135m"})
    EXPECT_EQ(tokens_of(preset_config(preset), 140'000), 8192U) << preset;
}

// Otherwise sequences that generate would wait too long: 2,048 tokens of Llama-70B take half a second on one
// GPU.
TEST(GpuBatchTokens, OfALargeModelAreFewer) {
  const LlamaConfig model = preset_config("llama-3.1-70b");
  const auto tokens_of_ranks = [&](uint32_t ranks) {
    return gpu_batch_tokens(model, bytes_of_rank(model, ranks),
                            {.context = 4096, .sequences = 1, .ranks = ranks}, 149'000 * kMegabyte);
  };
  EXPECT_EQ(tokens_of_ranks(1), 2048U);
  EXPECT_EQ(tokens_of_ranks(4), 4096U);
}

TEST(GpuBatchTokens, AreFewerWhereMemoryIsShort) {
  // 16.06 GB of weights, 8.59 GB of keys and values, 1.1 GB that do not depend on the tokens.
  const LlamaConfig model = preset_config("llama-3.1-8b");
  EXPECT_EQ(tokens_of(model, 27'500), 8192U);
  const uint32_t some = tokens_of(model, 25'900);
  EXPECT_LT(some, 2048U);
  EXPECT_GT(some, 16U);
  EXPECT_EQ(tokens_of(model, 25'500), 16U) << "a program for as many may fit all the same";
}

// 7 blocks of 64 tokens.
TEST(GpuBatchTokens, AreNoMoreThanTheKvCacheHolds) {
  EXPECT_EQ(tokens_of(preset_config("llama-3.2-1b"), 140'000, {.context = 400, .sequences = 1}), 256U);
}

TEST(GpuBatchTokens, AreOneForEachSequenceAtLeast) {
  EXPECT_EQ(tokens_of(preset_config("llama-3.2-1b"), 1'000, {.context = 128, .sequences = 300}), 300U);
}

TEST(GpuBatchTokens, AreAsManyAsSequencesForModelsWithoutProgramsOfTiles) {
  LlamaConfig model = preset_config("llama-3.2-1b");
  model.intermediate_size += 16;
  EXPECT_EQ(tokens_of(model, 140'000), 16U);
}

std::string refusal(const EngineOptions& options, const ProgramLimits& limits) {
  try {
    check_pass_size(options, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(PassSize, IsAtMostTheTokensOfTheKvCache) {
  const EngineOptions asked{.max_batch_tokens = 2048};
  EXPECT_EQ(refusal(asked, {.context = 400, .sequences = 1, .rows = 2048}),
            "max_batch_tokens: 2048; limit: 448 (the tokens of the KV cache: 7 blocks of 64)");
  EXPECT_EQ(refusal(asked, {.context = 2048, .sequences = 1, .rows = 2048}), "");
}

TEST(PassSize, IsRefusedByTheOptionThatItFollowsFrom) {
  EXPECT_EQ(refusal({}, {.context = 128, .sequences = 1000, .cache_blocks = 2}),
            "max_sequences: 1000; limit: 128 (the tokens of the KV cache: 2 blocks of 64)");
}

}  // namespace
}  // namespace serval
