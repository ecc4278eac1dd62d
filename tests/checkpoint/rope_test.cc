#include "models/llama/rope.h"

#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/llama/configs.h"

namespace serval {
namespace {

// transformers computes in fp32; its powers have errors of a few units in the last place.
constexpr double kRelativeTolerance = 1e-6;

// Covers every type, in every family, in each place of config.json where it may be given.
TEST(Rope, InverseFrequenciesAndAttentionFactorsEqualThoseOfTransformers) {
  std::ifstream file(SERVAL_TEST_DATA "/checkpoint/rope.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  ASSERT_GT(goldens["cases"].size(), 100U);
  for (const nlohmann::json& golden : goldens["cases"]) {
    const LlamaConfig config = parse_config(golden["config"].dump(), "golden");
    const double factor = golden["attention_factor"];
    EXPECT_NEAR(config.rope_attention_factor, factor, kRelativeTolerance * factor) << golden["config"];
    const auto expected = golden["inverse_frequencies"].get<std::vector<double>>();
    const std::vector<float> found = rope_inverse_frequencies(config);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], kRelativeTolerance * expected[i])
          << golden["config"] << " pair " << i;
  }
}

TEST(Rope, TheAttentionFactorMultipliesCosinesAndSines) {
  LlamaConfig config;
  config.head_dim = 64;
  config.rope_theta = 10000;
  const std::vector<float> plain = make_rope_table(config, 8);
  config.rope_attention_factor = 1.25;
  const std::vector<float> scaled = make_rope_table(config, 8);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] * 1.25F);
}

TEST(Rope, DivisorsDivideFrequenciesBeforeTheyAreScaled) {
  LlamaConfig config;
  config.head_dim = 64;
  config.rope_theta = 10000;
  config.rope_scaling = LinearRopeScaling{2};
  const std::vector<float> plain = rope_inverse_frequencies(config);
  config.rope_divisors.assign(32, 1);
  config.rope_divisors[5] = 8;
  const std::vector<float> divided = rope_inverse_frequencies(config);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(divided[i], i == 5 ? plain[i] / 8 : plain[i]);
}

TEST(Rope, Llama3ScalingKeepsShortWavelengthsAndStretchesLongOnes) {
  LlamaConfig config;
  config.head_dim = 64;
  config.rope_theta = 500000;
  const std::vector<float> plain = rope_inverse_frequencies(config);
  config.rope_scaling = Llama3RopeScaling{32, 1, 4, 8192};
  const std::vector<float> scaled = rope_inverse_frequencies(config);
  EXPECT_EQ(scaled.front(), plain.front());
  EXPECT_FLOAT_EQ(scaled.back(), plain.back() / 32);
  for (size_t i = 1; i < scaled.size(); ++i) EXPECT_LT(scaled[i], scaled[i - 1]);
}

}  // namespace
}  // namespace serval
