#include "models/presets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/configs.h"

namespace serval {
namespace {

TEST(Presets, AreThoseOfTheConfigsFolder) {
  EXPECT_THAT(preset_names(),
              testing::ElementsAre("llama-3.1-70b", "llama-3.1-8b", "llama-3.2-1b", "llama-3.2-3b"));
}

TEST(Presets, HaveTheirModelsParameterCounts) {
  EXPECT_EQ(find_preset("llama-3.2-1b")->num_parameters(), 1'235'814'400);
  EXPECT_EQ(find_preset("llama-3.2-3b")->num_parameters(), 3'212'749'824);
  EXPECT_EQ(find_preset("llama-3.1-8b")->num_parameters(), 8'030'261'248);
  EXPECT_EQ(find_preset("llama-3.1-70b")->num_parameters(), 70'553'706'496);
}

TEST(Presets, ATiedEmbeddingIsReadEveryToken) {
  EXPECT_EQ(find_preset("llama-3.2-1b")->weight_bytes_per_token(), 2'471'628'800);
}

TEST(Presets, OfAnUntiedEmbeddingATokenReadsOneRow) {
  const LlamaConfig config = preset_config("llama-3.1-8b");
  EXPECT_EQ(config.weight_bytes_per_token(), config.weight_bytes_bf16() - 2 * (128256 - 1) * 4096);
}

TEST(Presets, AreCalledAsTheirFiles) {
  for (const std::string& name : preset_names()) EXPECT_EQ(find_preset(name)->name, name);
}

TEST(Presets, AnUnknownNameIsNone) {
  EXPECT_EQ(find_preset("llama-0b"), nullptr);
}

}  // namespace
}  // namespace serval
