// Compares the bundled model with transformers in fp32 (tests/data/stories, made by
// tools/stories/goldens.py).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

#include "tests/llama/configs.h"
#include "tests/llama/decoder.h"

namespace serval::testing {
namespace {

const std::filesystem::path kModel = std::filesystem::path(SERVAL_SOURCE_DIR) / "assets" / "serval-stories";

// Serval rounds intermediate values to bf16, transformers does not. Logits reach 22.
constexpr double kMaxDifference = 0.12;

void expect_the_logits_of_transformers(const BackendOptions& options) {
  std::ifstream file(std::filesystem::path(SERVAL_TEST_DATA) / "stories" / "goldens.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  const LlamaConfig config = load_config(kModel);
  Decoder decoder(config, std::make_shared<const ModelWeights>(ModelWeights::load(kModel, config)), options);
  double largest = 0;
  size_t compared = 0, clear = 0;
  for (const nlohmann::json& prompt : goldens.at("prompts")) {
    SCOPED_TRACE(prompt.at("text").get<std::string>());
    std::vector<int32_t> tokens = prompt.at("ids");
    const size_t length = tokens.size();
    const std::vector<int32_t> greedy = prompt.at("greedy");
    const std::vector<double> margins = prompt.at("margins");
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    const auto logits = decoder.force(tokens);
    for (size_t i = 0; i < greedy.size(); ++i, ++compared) {
      if (margins[i] < 2 * kMaxDifference) continue;
      const std::vector<float>& ours = logits[length - 1 + i];
      EXPECT_EQ(std::max_element(ours.begin(), ours.end()) - ours.begin(), greedy[i]) << "token " << i;
      ++clear;
    }
    for (const nlohmann::json& top : prompt.at("top")) {
      const std::vector<float>& ours = logits[top.at("position").get<size_t>()];
      for (size_t i = 0; i < top.at("ids").size(); ++i) {
        const double difference =
            std::abs(ours[top.at("ids")[i].get<size_t>()] - top.at("logits")[i].get<double>());
        largest = std::max(largest, difference);
        EXPECT_LE(difference, kMaxDifference) << "position " << top.at("position") << ", rank " << i;
      }
    }
  }
  EXPECT_GT(clear, compared / 2);
  ::testing::Test::RecordProperty("largest_difference", fmt::format("{:.4f}", largest));
}

TEST(BundledModel, HasTheLogitsOfTransformers) {
  expect_the_logits_of_transformers(host_options(256, 7, 2));
}

TEST(BundledModel, HasTheLogitsOfTransformersWhereTwoRanksShareIt) {
  BackendOptions options = host_options(256, 7, 2);
  options.limits.ranks = 2;
  expect_the_logits_of_transformers(options);
}

}  // namespace
}  // namespace serval::testing
