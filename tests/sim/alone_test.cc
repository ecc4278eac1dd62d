// Linked only with the simulator's library: simulating a program needs no other library of the project.
#include <gtest/gtest.h>

#include "profiler/sim/parameters.h"
#include "profiler/sim/simulate.h"
#include "tests/sim/hand_made.h"

namespace serval {
namespace {

TEST(SimulatorAlone, SimulatesAProgram) {
  testing::HandMade hand(1);
  const uint32_t gate = hand.counter();
  hand.add(0, 1, {}, {{gate, 1}});
  const Program program = hand.build(gate);
  const SimLaunch launch = decode_launch(1, 10, 1);
  EXPECT_EQ(simulate(program, launch, testing::round_numbers()).executions.size(), 1U);
  EXPECT_GT(predict_us(program, launch, testing::round_numbers()), 0);
}

TEST(SimulatorAlone, HasTheCalibrationOfTheH200) {
  EXPECT_GT(h200_sim_parameters().consumer_warps, 0);
}

}  // namespace
}  // namespace serval
