// The host's results for many rows of a sequence together have the same bits as those for each row alone.
#include "instructions/common/leaf_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/common/exponential.h"
#include "instructions/common/matvec.h"
#include "tests/instructions/scene.h"
#include "vm/base/bf16.h"

namespace serval::testing {
namespace {

TEST(MultiplyKeys, GivesWhatMatvecGives) {
  Random random(2);
  for (int n = 0; n < 100; ++n) {
    const size_t cols = random.pick<size_t>({32, 64, 128}), rows = random.between(1, 19);
    const size_t keys = random.between(1, 70), stride = whole_key_groups(keys) + random.below(3);
    const std::vector<uint16_t> k = random_bf16(random, keys * cols);
    const std::vector<uint16_t> queries = random_bf16(random, rows * cols);
    std::vector<float> x(rows * cols), widened(whole_key_groups(keys) * cols);
    for (size_t r = 0; r < rows; ++r) matvec_row(queries.data() + r * cols, cols, x.data() + r * cols);
    std::vector<float> found(rows * stride), expected(rows * stride);
    widen_keys(k.data(), keys, cols, widened.data());
    multiply_keys(widened.data(), keys, cols, x.data(), rows, found.data(), stride);
    matvec(k.data(), keys, cols, x.data(), rows, expected.data(), stride);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = r * stride; j < r * stride + keys; ++j)
        ASSERT_EQ(std::bit_cast<uint32_t>(found[j]), std::bit_cast<uint32_t>(expected[j])) << cols;
    }
  }
}

TEST(AccumulateRows, AddsInOrderHoweverManyRowsThereAre) {
  Random random(3);
  for (int n = 0; n < 100; ++n) {
    const size_t cols = 16 * random.between(1, 8), rows = random.between(1, 19);
    const size_t values = random.between(1, 70), stride = values + random.below(3);
    const std::vector<uint16_t> v = random_bf16(random, values * cols);
    const std::vector<uint16_t> weights = random_bf16(random, rows * stride);
    std::vector<float> p(rows * stride), found(rows * cols, 1), expected(rows * cols, 1);
    for (size_t i = 0; i < p.size(); ++i) p[i] = bf16_to_float(weights[i]);
    accumulate_rows(v.data(), values, cols, p.data(), stride, rows, found.data(), cols);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t t = 0; t < values; ++t) {
        for (size_t d = 0; d < cols; ++d)
          expected[r * cols + d] += p[r * stride + t] * bf16_to_float(v[t * cols + d]);
      }
    }
    ASSERT_EQ(found, expected);
  }
}

TEST(Soften, GivesARowWhatItGetsAlone) {
  Random random(4);
  for (int n = 0; n < 50; ++n) {
    constexpr float kScale = 0.125F;
    const size_t num_rows = random.between(1, 9);
    std::vector<std::vector<float>> together(num_rows), alone;
    std::vector<float> largest(2 * num_rows), sums(2 * num_rows);
    for (std::vector<float>& scores : together) {
      scores.resize(random.between(1, 40));
      for (float& score : scores) score = static_cast<float>(random.real(-90, 90));
    }
    alone = together;
    std::vector<SoftmaxRow> rows;
    for (size_t r = 0; r < num_rows; ++r)
      rows.push_back({together[r].data(), together[r].size(), &largest[r], &sums[r]});
    softmax(rows, kScale);
    for (size_t r = 0; r < num_rows; ++r) {
      const SoftmaxRow row = {alone[r].data(), alone[r].size(), &largest[num_rows + r], &sums[num_rows + r]};
      softmax(std::span(&row, 1), kScale);
      ASSERT_EQ(largest[r], largest[num_rows + r]);
      ASSERT_EQ(sums[r], sums[num_rows + r]);
      ASSERT_EQ(together[r], alone[r]);
      ASSERT_EQ(*std::max_element(alone[r].begin(), alone[r].end()), 1);
    }
  }
}

TEST(Exponentials, AreRoundedToTheNearestFloat) {
  std::vector<float> x;
  for (double value = 0; value > -110; value -= 0.00137) x.push_back(static_cast<float>(value));
  std::vector<float> found = x;
  exponentials(found.data(), found.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(x[i]));
    const float nearest = static_cast<float>(expected);
    const double unit = std::nextafter(nearest, 2.0F) - nearest;
    ASSERT_NEAR(found[i], expected, 0.51 * unit) << x[i];
  }
  std::vector<float> ends = {0, -0.0F, -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};
  exponentials(ends.data(), ends.size());
  EXPECT_EQ(ends[0], 1);
  EXPECT_EQ(ends[1], 1);
  EXPECT_EQ(ends[2], 0);
  EXPECT_TRUE(std::isnan(ends[3]));
}

}  // namespace
}  // namespace serval::testing
