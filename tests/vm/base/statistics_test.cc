#include "vm/base/statistics.h"

#include <gtest/gtest.h>

namespace serval {
namespace {

TEST(Statistics, OfNoValuesAreZero) {
  EXPECT_EQ(mean({}), 0);
  EXPECT_EQ(deviation({}, DeviationOf::kValues), 0);
  EXPECT_EQ(deviation({}, DeviationOf::kSample), 0);
  EXPECT_EQ(percentile({}, 50), 0);
}

TEST(Statistics, OneValueHasNoDeviation) {
  const std::vector<double> one = {3};
  EXPECT_EQ(mean(one), 3);
  EXPECT_EQ(deviation(one, DeviationOf::kValues), 0);
  EXPECT_EQ(deviation(one, DeviationOf::kSample), 0);
}

TEST(Statistics, DeviationIsOfTheValuesOrOfWhatTheyAreASampleOf) {
  const std::vector<double> values = {2, 4, 4, 4, 5, 5, 7, 9};  // squares of the distances from 5: 32
  EXPECT_DOUBLE_EQ(mean(values), 5);
  EXPECT_DOUBLE_EQ(deviation(values, DeviationOf::kValues), 2);
  EXPECT_DOUBLE_EQ(deviation(values, DeviationOf::kSample), std::sqrt(32.0 / 7));
}

TEST(Statistics, MedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle) {
  EXPECT_DOUBLE_EQ(median({9, 1, 4}), 4);
  EXPECT_DOUBLE_EQ(median({9, 1, 4, 5}), 4.5);
}

TEST(Statistics, PercentilesLieOnAStraightLineBetweenTwoValues) {
  const std::vector<double> values = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 10);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 25);
  EXPECT_DOUBLE_EQ(percentile(values, 90), 37);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 40);
}

TEST(Statistics, ImbalanceIsOfTheLargestAboveTheMean) {
  EXPECT_DOUBLE_EQ(imbalance_of(std::vector<uint64_t>{1, 1, 4}), 1);
  EXPECT_DOUBLE_EQ(imbalance_of(std::vector<uint64_t>{0, 0}), 0);
}

}  // namespace
}  // namespace serval
