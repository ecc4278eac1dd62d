// Writes the rows of a pass for tests.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>

#include "vm/state/block.h"

namespace serval::testing {

inline constexpr uint32_t kLeftPositions = 64;

// Writes a row for each token, in sequences of `rows_of_sequence` consecutive rows: pieces of prompts from
// position 0, or, with one row each, single tokens at different positions with kLeftPositions positions left
// after them. As many of the first rows as possible want logits; sampling is greedy. Returns the number of
// sequences. The KV cache must have room for a full context of each.
inline uint32_t write_pass(StateBlock& state, std::span<const int32_t> tokens, uint32_t rows_of_sequence) {
  constexpr uint32_t kStride = 37;
  std::iota(state.block_table.begin(), state.block_table.end(), 0);
  uint32_t sequences = 0;
  for (uint32_t r = 0; r < tokens.size(); ++r) {
    const uint32_t slot = r / rows_of_sequence;
    const uint32_t position = rows_of_sequence > 1
                                  ? r % rows_of_sequence
                                  : slot * kStride % (state.limits.max_context - kLeftPositions);
    state.rows[r] = {.active = 1,
                     .wants_logits = r < logit_rows(state.limits) ? 1U : 0U,
                     .slot = slot,
                     .token = tokens[r],
                     .position = position};
    state.slots[slot] = {.end_position = state.limits.max_context};
    sequences = slot + 1;
  }
  return sequences;
}

}  // namespace serval::testing
