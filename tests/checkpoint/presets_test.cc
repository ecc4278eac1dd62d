#include "models/presets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/configs.h"

namespace serval {
namespace {

TEST(Presets, AreThoseOfTheConfigsFolder) {
  EXPECT_THAT(
      preset_names(),
      testing::ElementsAre("llama-2-7b", "llama-3.1-70b", "llama-3.1-8b", "llama-3.2-1b", "llama-3.2-3b",
                           "mistral-7b-v0.3", "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b", "qwen3-0.6b",
                           "qwen3-8b", "smollm2-1.7b", "smollm2-135m", "smollm2-360m"));
}

TEST(Presets, HaveTheirModelsParameterCounts) {
  EXPECT_EQ(find_preset("llama-3.2-1b")->num_parameters(), 1'235'814'400);
  EXPECT_EQ(find_preset("llama-3.2-3b")->num_parameters(), 3'212'749'824);
  EXPECT_EQ(find_preset("llama-3.1-8b")->num_parameters(), 8'030'261'248);
  EXPECT_EQ(find_preset("llama-3.1-70b")->num_parameters(), 70'553'706'496);
  EXPECT_EQ(find_preset("llama-2-7b")->num_parameters(), 6'738'415'616);
  EXPECT_EQ(find_preset("mistral-7b-v0.3")->num_parameters(), 7'248'023'552);
  EXPECT_EQ(find_preset("qwen2.5-0.5b")->num_parameters(), 494'032'768);
  EXPECT_EQ(find_preset("qwen2.5-1.5b")->num_parameters(), 1'543'714'304);
  EXPECT_EQ(find_preset("qwen2.5-7b")->num_parameters(), 7'615'616'512);
  EXPECT_EQ(find_preset("qwen3-0.6b")->num_parameters(), 596'049'920);
  EXPECT_EQ(find_preset("qwen3-8b")->num_parameters(), 8'190'735'360);
  EXPECT_EQ(find_preset("smollm2-135m")->num_parameters(), 134'515'008);
  EXPECT_EQ(find_preset("smollm2-360m")->num_parameters(), 361'821'120);
  EXPECT_EQ(find_preset("smollm2-1.7b")->num_parameters(), 1'711'376'384);
}

TEST(Presets, ATiedEmbeddingIsReadEveryToken) {
  EXPECT_EQ(find_preset("llama-3.2-1b")->weight_bytes_per_token(), 2'471'628'800);
}

TEST(Presets, ATokenReadsOneRowOfAnUntiedEmbedding) {
  const LlamaConfig config = preset_config("llama-3.1-8b");
  EXPECT_EQ(config.weight_bytes_per_token(), config.weight_bytes() - 2 * (128256 - 1) * 4096);
}

TEST(Presets, HaveTheNamesOfTheirFiles) {
  for (const std::string& name : preset_names()) EXPECT_EQ(find_preset(name)->name, name);
}

TEST(Presets, FindNothingForAnUnknownName) {
  EXPECT_EQ(find_preset("llama-0b"), nullptr);
}

}  // namespace
}  // namespace serval
