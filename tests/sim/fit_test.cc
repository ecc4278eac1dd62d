#include "profiler/sim/fit.h"

#include <gtest/gtest.h>

#include "tests/sim/hand_made.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using testing::HandMade;
using testing::round_numbers;

// Two products, one after the other: a short and a long one separate the times of multiplying and of storing.
MeasuredPass measured(uint32_t units, const SimParameters& truth) {
  HandMade hand(1);
  const uint32_t done = hand.counter(), gate = hand.counter();
  hand.add(0, units, {}, {{done, 1}});
  hand.add(0, 1, {{done, 1, 2}}, {{gate, 1}});
  MeasuredPass pass{.name = "hand-made",
                    .program = hand.build(gate),
                    .launch = decode_launch(1, 10, 2),
                    .us = 0,
                    .what_ifs = {}};
  pass.us = predict_us(pass, truth);
  return pass;
}

TEST(Fit, FindsTheParametersThatTheTimesCameFrom) {
  SimParameters truth = round_numbers();
  truth.pages_in_flight = 8;
  truth.multiply_us = 3;
  truth.signal_us = 2;
  const std::vector<MeasuredPass> passes = {measured(1, truth), measured(40, truth)};
  const std::vector<std::string> names = {"multiply_us", "signal_us"};
  SimParameters begin = round_numbers();
  begin.pages_in_flight = truth.pages_in_flight;
  const SimParameters found = fit(begin, names, passes);
  EXPECT_NEAR(found.multiply_us, 3, 0.15);
  EXPECT_NEAR(found.signal_us, 2, 0.15);
  EXPECT_LT(fit_error(found, passes), 0.01);
  EXPECT_EQ(found.store_us, truth.store_us);  // not among the names
}

TEST(Fit, LeavesParametersThatAreRight) {
  const std::vector<MeasuredPass> passes = {measured(5, round_numbers())};
  const std::vector<std::string> names = {"multiply_us"};
  EXPECT_EQ(fit(round_numbers(), names, passes).multiply_us, round_numbers().multiply_us);
}

TEST(Fit, RefusesAParameterThatIsNotThere) {
  const std::vector<MeasuredPass> passes = {measured(5, round_numbers())};
  const std::vector<std::string> names = {"warp_speed"};
  EXPECT_THROW(fit(round_numbers(), names, passes), Error);
}

}  // namespace
}  // namespace serval
