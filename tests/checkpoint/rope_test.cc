#include "models/llama/rope.h"

#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/llama/configs.h"

namespace serval {
namespace {

// transformers computes in float32; its powers are good to a few units in the last place.
constexpr double kRelativeTolerance = 1e-6;

TEST(Rope, InverseFrequenciesEqualThoseOfTransformers) {
  std::ifstream file(SERVAL_TEST_DATA "/checkpoint/rope.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  ASSERT_FALSE(goldens["cases"].empty());
  for (const nlohmann::json& golden : goldens["cases"]) {
    const LlamaConfig config = parse_config(golden["config"].dump(), "golden");
    const auto expected = golden["inverse_frequencies"].get<std::vector<double>>();
    const std::vector<float> found = rope_inverse_frequencies(config);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], kRelativeTolerance * expected[i])
          << golden["config"] << " pair " << i;
  }
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
