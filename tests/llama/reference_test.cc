// Compares whole passes with the formulas.
#include <cmath>
#include <fmt/format.h>

#include "gtest/gtest.h"

#include "tests/llama/decoder.h"
#include "tests/llama/reference_llama.h"
#include "tests/llama/tiny_model.h"

namespace serval::testing {
namespace {

// For the first tokens: both sides round the same numbers at the same points.
constexpr double kMaxNmseOfFirst = 1e-9;
constexpr size_t kFirst = 2;

double nmse(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(double{found[i]} - expected[i], 2);
    energy += std::pow(double{expected[i]}, 2);
  }
  return error / energy;
}

// Later, a sum in another order is occasionally rounded the other way, and its error propagates. The error
// must stay of the order of all roundings together.
void expect_formulas(const LlamaConfig& config) {
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(config, 7));
  const ReferenceLlama reference(config, *weights), unrounded(config, *weights, false);
  Decoder decoder(config, weights, host_options(320, 7));
  for (const size_t length : {1U, 2U, 63U, 64U, 65U, 256U, 257U, 300U}) {
    const std::vector<int32_t> tokens = random_tokens(config, length, static_cast<uint32_t>(length));
    const Answer answer = decoder.answer({{.prompt = tokens}}).front();
    const std::vector<float> expected = reference.logits(tokens);
    ASSERT_EQ(answer.logits[0].size(), expected.size());
    const double error = nmse(answer.logits[0], expected);
    const double rounding = nmse(unrounded.logits(tokens), expected);
    EXPECT_LE(error, length <= kFirst ? kMaxNmseOfFirst : 2 * rounding)
        << config.name << ", " << length << " tokens";
    ::testing::Test::RecordProperty(fmt::format("{}_{}", config.name, length),
                                    fmt::format("{:.2e} of {:.2e}", error, rounding));
  }
}

TEST(Llama, IsItsFormulas) {
  expect_formulas(tiny_config());
}

TEST(Llama, IsItsFormulasWithAnLmHeadOfItsOwnAndWideHeads) {
  expect_formulas(tiny_untied_config());
}

TEST(Llama, IsItsFormulasWithBiasesOfQueriesKeysAndValues) {
  LlamaConfig config = tiny_config();
  config.qkv_bias = true;
  expect_formulas(config);
}

TEST(Llama, IsItsFormulasWithNormsOfTheHeadsOfQueriesAndKeys) {
  LlamaConfig config = tiny_untied_config();
  config.num_heads = 6;
  config.qk_norm = true;
  expect_formulas(config);
}

}  // namespace
}  // namespace serval::testing
