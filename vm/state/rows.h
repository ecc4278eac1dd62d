// The rows of a pass, a part of the state block.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr int32_t kNoTarget = -1;

// One row of a pass: one token of one sequence.
struct PassRow {
  uint32_t active = 0;        // 0: the row is skipped everywhere
  uint32_t wants_logits = 0;  // 0: an inner token of a prompt: no LM head, no sampling, no pooling
  uint32_t slot = 0;          // sequence slot and row of the block table
  int32_t token = 0;          // id in the vocabulary
  uint32_t position = 0;      // tokens before it in its sequence
  // The known next token of a row that wants logits, or kNoTarget. With a target, `sample` draws no token: it
  // gives the target's log-probability. Only launches of one pass have targets.
  int32_t target = kNoTarget;
  // The next `drafts` rows belong to this row's sequence: those of them that are active have the tokens that
  // are expected to follow it, at the positions that follow (vm/state/slots.h). `advance` keeps the tokens
  // that were drawn after right ones and fills the rows for the next pass.
  uint32_t drafts = 0;
  // In programs that pool hidden states, for a row that wants logits: 1 if its hidden state is added to what
  // its slot has in state.pooled, 0 if it replaces that.
  uint32_t adds = 0;
};
static_assert(sizeof(PassRow) == 32);

constexpr bool row_is_active(const PassRow& row) {
  return row.active != 0;
}
constexpr bool row_wants_logits(const PassRow& row) {
  return row.active != 0 && row.wants_logits != 0;
}
constexpr bool row_has_target(const PassRow& row) {
  return row.target != kNoTarget;
}

}  // namespace serval
