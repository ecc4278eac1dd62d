// Requests a backend to stop during a launch.
#pragma once

#include <cstdint>
#include <numeric>

#include "gtest/gtest.h"

#include "engine/backend/backend.h"

namespace serval::testing {

// For a model with a context of `context` tokens, enough for 300.
inline void expect_to_stop_between_passes(Backend& backend, uint32_t context) {
  StateBlock& state = backend.state();
  state.rows[0] = {.active = 1, .wants_logits = 1, .slot = 0, .token = 1, .position = 0};
  state.slots[0].end_position = context;
  std::iota(state.block_table.begin(), state.block_table.end(), 0);
  uint32_t passes = 0;
  backend.run({.passes = 300}, [&](uint32_t pass) {
    EXPECT_EQ(pass, passes++);
    EXPECT_EQ(state.output[pass][0].valid, 1U);
    EXPECT_EQ(state.output[pass][0].position, pass + 1);
    if (pass == 3) backend.request_stop();
  });
  EXPECT_GE(passes, 4U);
  EXPECT_LT(passes, 300U);
  EXPECT_EQ(state.control.stopped_by_host, 1U);
  EXPECT_EQ(state.rows[0].position, passes);
  EXPECT_EQ(state.rows[0].active, 1U) << "the sequence may go on";
  const uint32_t before = passes;
  backend.run({.passes = 2}, [&](uint32_t) { ++passes; });
  EXPECT_EQ(passes, before + 2) << "the stop is over";
}

}  // namespace serval::testing
