// Tests for every backend with masks that are given while a launch runs (vm/state/masks.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>

#include "gtest/gtest.h"

#include "engine/backend/backend.h"
#include "vm/base/error.h"

namespace serval::testing {

// Two sequences that begin with one token each; every token of the first one is drawn with a mask.
inline void begin_masked_passes(Backend& backend) {
  StateBlock& state = backend.state();
  std::iota(state.block_table.begin(), state.block_table.end(), 0);
  for (uint32_t s = 0; s < 2; ++s) {
    state.slots[s] = {};
    state.slots[s].end_position = state.limits.max_context;
    state.slots[s].masked = s == 0 ? 1 : 0;
    state.slots[s].extras = extras_of(state.slots[s]);
    state.rows[s] = {.active = 1, .wants_logits = 1, .slot = s, .token = 1, .position = 0};
  }
}

inline int32_t only_token_at(uint32_t position, const StateLimits& limits) {
  return static_cast<int32_t>((position * 37 + 5) % limits.vocab);
}

// Allows the first sequence a single token at this position.
inline void publish_mask_of_one_token(const StateBlock& state, uint32_t position) {
  const auto token = static_cast<uint32_t>(only_token_at(position, state.limits));
  std::ranges::fill(state.mask_of(0), 0U);
  state.mask_of(0)[token / kTokensOfMaskWord] = 1U << token % kTokensOfMaskWord;
  state.publish_mask(0, position);
}

// Each mask allows one token, so a mask that is read too early or too late changes the tokens. The first is
// given when the launch has begun, the others when the previous token is known, some long after.
inline void expect_launches_to_wait_for_masks(Backend& backend, uint32_t passes) {
  constexpr auto kLate = std::chrono::milliseconds(20);
  begin_masked_passes(backend);
  const StateBlock& state = backend.state();
  uint32_t drawn = 0;
  const auto on_pass = [&](uint32_t pass) {
    const OutputToken token = backend.state().output[pass][0];
    EXPECT_EQ(token.token, only_token_at(pass + 1, state.limits)) << "pass " << pass;
    EXPECT_EQ(backend.state().output[pass][1].valid, 1U);
    ++drawn;
    if (pass % 7 == 3) std::this_thread::sleep_for(kLate);
    publish_mask_of_one_token(state, pass + 2);
  };
  backend.run({.passes = passes}, on_pass, [&] { publish_mask_of_one_token(state, 1); });
  EXPECT_EQ(drawn, passes);
}

// A mask for any position remains valid: the sequence continues to the launch's end.
inline void expect_a_mask_for_any_position_to_stay(Backend& backend, uint32_t passes) {
  begin_masked_passes(backend);
  const StateBlock& state = backend.state();
  std::ranges::fill(state.mask_of(0), 0U);
  state.mask_of(0)[0] = 1U << 9;
  uint32_t drawn = 0;
  const auto on_pass = [&](uint32_t pass) {
    EXPECT_EQ(backend.state().output[pass][0].token, 9);
    ++drawn;
  };
  backend.run({.passes = passes}, on_pass, [&] { state.publish_mask(0, kAnyPosition); });
  EXPECT_EQ(drawn, passes);
}

// `backend` must have a short stall timeout.
inline void expect_a_mask_that_does_not_come_to_be_a_fault(Backend& backend) {
  begin_masked_passes(backend);
  backend.state().publish_mask(0, 0);
  try {
    backend.run({.passes = 3}, {}, [&] { publish_mask_of_one_token(backend.state(), 1); });
    ADD_FAILURE() << "the second pass did not wait";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
    EXPECT_NE(std::string(error.what()).find("sample"), std::string::npos) << error.what();
  }
  expect_launches_to_wait_for_masks(backend, 3);
}

}  // namespace serval::testing
