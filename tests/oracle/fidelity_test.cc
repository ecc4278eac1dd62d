#include "engine/torch/fidelity.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(Fidelity, MeasuresTheRelativeErrorOfAPosition) {
  const std::vector<float> reference = {3, 4}, got = {3, 4.5F};
  EXPECT_DOUBLE_EQ(compare_position(got, reference).relative, 0.1);
  EXPECT_DOUBLE_EQ(compare_position(reference, reference).relative, 0);
}

TEST(Fidelity, MeasuresTheDivergenceOfTheReferencesDistributionFromOurs) {
  // p = (1/4, 3/4), q = (1/2, 1/2).
  const std::vector<float> reference = {0, std::log(3.0F)}, got = {7, 7};
  const double expected = 0.25 * std::log(0.5) + 0.75 * std::log(1.5);
  EXPECT_NEAR(compare_position(got, reference).kl, expected, 1e-7);
  EXPECT_EQ(compare_position(reference, reference).kl, 0);
}

// The divergence is about ε²/2 · Var, which a naive sum of p (ln p - ln q) loses in rounding.
TEST(Fidelity, SeesDivergencesFarBelowTheRoundingOfASum) {
  constexpr size_t kVocab = 128'000;
  constexpr double kShift = 1.0 / (1 << 20);
  std::vector<float> reference(kVocab), got(kVocab);
  for (size_t i = 0; i < kVocab; ++i) {
    reference[i] = 0;
    got[i] = static_cast<float>(i % 2 == 0 ? kShift : -kShift);
  }
  EXPECT_NEAR(compare_position(got, reference).kl / (kShift * kShift / 2), 1.0, 1e-3);
}

TEST(Fidelity, StaysFiniteWhereLogitsAreLarge) {
  const std::vector<float> reference = {1000, -1000}, got = {999, -1000};
  const PositionError error = compare_position(got, reference);
  EXPECT_TRUE(std::isfinite(error.kl));
  EXPECT_GE(error.kl, 0);
}

TEST(Fidelity, AveragesPositionsAndNamesTheWorst) {
  const std::vector<float> reference = {1, 0, 0, 1, 1, 0}, got = {1, 0, 1, 0, 1.5F, 0};
  const Fidelity fidelity = compare_logits(got, reference, 2);
  EXPECT_DOUBLE_EQ(fidelity.mean_relative, (0 + std::sqrt(2.0) + 0.5) / 3);
  EXPECT_DOUBLE_EQ(fidelity.top1_agreement, 2.0 / 3);
  EXPECT_EQ(fidelity.worst_position, 1U);
  EXPECT_FALSE(fidelity.worst.same_top);
}

TEST(Fidelity, GateAllowsAFewPercentAndNoNan) {
  Fidelity reference;
  reference.mean_relative = reference.mean_kl = 1;
  const auto passes = [&](double relative, double kl) {
    Fidelity ours;
    ours.mean_relative = relative;
    ours.mean_kl = kl;
    return fidelity_ratio(ours, reference).within_gate();
  };
  EXPECT_TRUE(passes(1.05, 1.05));
  EXPECT_FALSE(passes(1.06, 0.1));
  EXPECT_FALSE(passes(0.1, 1.06));
  EXPECT_FALSE(passes(std::numeric_limits<double>::quiet_NaN(), 0.1));
}

TEST(Fidelity, ANanIsOutsideTheGate) {
  const std::vector<float> reference = {1, 0, 1, 0}, nearly = {1, 0.1F, 1, 0.1F};
  const std::vector<float> broken = {1, 0, std::nanf(""), 0};
  const Fidelity ours = compare_logits(broken, reference, 2);
  EXPECT_EQ(ours.worst_position, 1U);
  EXPECT_FALSE(fidelity_ratio(ours, compare_logits(nearly, reference, 2)).within_gate());
}

}  // namespace
}  // namespace serval
