// The rows of a pass, a part of the state block.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr int32_t kNoTarget = -1;

// One row of a pass: one token of one sequence.
struct PassRow {
  uint32_t active = 0;        // 0: the row is skipped everywhere
  uint32_t wants_logits = 0;  // 0: an inner token of a prompt: no LM head, no sampling
  uint32_t slot = 0;          // sequence slot and row of the block table
  int32_t token = 0;          // id in the vocabulary
  uint32_t position = 0;      // tokens before it in its sequence
  // Of a row that wants logits: the token after it, if that is known. `sample` then draws none and gives the
  // log-probability of this one. Only in launches of one pass.
  int32_t target = kNoTarget;
  uint32_t reserved[2] = {};
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
