// How many tokens a pass on a GPU has by default.
#include "engine/runtime/pass_size.h"

#include "gtest/gtest.h"

#include "tests/llama/configs.h"

namespace serval {
namespace {

constexpr uint64_t kMegabyte = 1'000'000;
constexpr ProgramLimits kLimits{.context = 4096, .sequences = 16};

uint32_t tokens_of(const LlamaConfig& model, uint64_t megabytes, const ProgramLimits& limits = kLimits) {
  return gpu_batch_tokens(model, bytes_of_model(model, 1), limits, megabytes * kMegabyte);
}

TEST(GpuBatchTokens, Are2048WhereTheyFit) {
  for (const char* preset : {"llama-3.2-1b", "llama-3.1-8b", "qwen3-8b", "smollm2-135m"})
    EXPECT_EQ(tokens_of(preset_config(preset), 140'000), 2048U) << preset;
  EXPECT_EQ(tokens_of(preset_config("llama-3.1-70b"), 149'000, {.context = 4096, .sequences = 1}), 2048U);
}

TEST(GpuBatchTokens, AreFewerWhereMemoryIsShort) {
  // 16.06 GB of weights, 8.59 GB of keys and values, 0.6 GB that do not depend on the tokens.
  const LlamaConfig model = preset_config("llama-3.1-8b");
  EXPECT_EQ(tokens_of(model, 26'000), 2048U);
  const uint32_t some = tokens_of(model, 25'400);
  EXPECT_LT(some, 2048U);
  EXPECT_GT(some, 16U);
  EXPECT_EQ(tokens_of(model, 25'000), 16U) << "a program for as many may fit all the same";
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

}  // namespace
}  // namespace serval
