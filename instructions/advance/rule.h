// State changes at the end of a pass, defined once: for this instruction, and for a backend that evaluates
// the model without a program.
#pragma once

#include <cstddef>
#include <span>

#include "instructions/common/footprint.h"
#include "vm/state/adjustments.h"
#include "vm/state/control.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"
#include "vm/state/slots.h"

namespace serval {

// When a sequence ends, according to its slot.
struct EndRule {
  uint32_t end_position;
  uint32_t num_stop_tokens;
  int32_t stop_tokens[kMaxStopTokens];
};
constexpr EndRule end_rule_of(const SequenceSlot& slot) {
  EndRule rule{slot.end_position, slot.num_stop_tokens, {}};
  for (int i = 0; i < kMaxStopTokens; ++i) rule.stop_tokens[i] = slot.stop_tokens[i];
  return rule;
}

// Why the sequence ends with this token at this position, or kNone.
constexpr FinishReason finish_of(const EndRule& rule, const SampledToken& sampled, uint32_t position) {
  bool stops = false;
  for (uint32_t i = 0; i < kMaxStopTokens; ++i) {
    stops |= i < rule.num_stop_tokens && rule.stop_tokens[i] == sampled.token;
  }
  const bool is_nan = sampled.log_probability != sampled.log_probability;
  if (is_nan) return FinishReason::kNotFinite;
  if (stops) return FinishReason::kStopToken;
  return position >= rule.end_position ? FinishReason::kLength : FinishReason::kNone;
}

// `sampled` and `output` have an entry for each row, `slots` one for each sequence. Advances the rows and
// fills in the output of the pass: a row that sampled a token has a valid entry. Returns true if any row is
// still active.
inline bool advance_rows(std::span<PassRow> rows, const SampledToken* sampled, const SequenceSlot* slots,
                         OutputToken* output) {
  bool any_active = false;
  for (size_t r = 0; r < rows.size(); ++r) {
    PassRow& row = rows[r];
    output[r] = {};
    if (!row_wants_logits(row)) {
      row.active = 0;
      continue;
    }
    const int32_t token = sampled[r].token;
    const uint32_t position = row.position + 1;
    const FinishReason finish = finish_of(end_rule_of(slots[row.slot]), sampled[r], position);
    output[r] = {1, row.slot, token, sampled[r].log_probability, position, finish};
    row.token = token;
    row.position = position;
    row.active = finish == FinishReason::kNone ? 1 : 0;
    any_active = any_active || row.active != 0;
  }
  return any_active;
}

// True if a slot with these extras keeps the token at position `at` of its history.
constexpr bool keeps_token(uint32_t extras, uint32_t at, uint32_t max_context) {
  return (extras & kKeepsHistory) != 0 && at < max_context;
}

// Appends a pass's tokens to the histories of their sequences, in row order.
inline void append_to_history(std::span<const OutputToken> output, SequenceSlot* slots,
                              AdjustmentTable<std::byte> adjustments) {
  for (const OutputToken& token : output) {
    if (token.valid == 0) continue;
    SequenceSlot& slot = slots[token.slot];
    const uint32_t at = slot.history_length++;
    if (keeps_token(slot.extras, at, adjustments.max_context))
      reinterpret_cast<int32_t*>(adjustments.of(token.slot) + kHistoryOffset)[at] = token.token;
  }
}

// Counts the pass and decides whether another follows.
constexpr void advance_control(PassControl& control, bool any_active, bool host_stop) {
  const uint32_t pass = control.passes_done++;
  if (host_stop) control.stopped_by_host = 1;
  if (host_stop || !any_active || control.passes_done >= control.passes_wanted) control.last_pass = pass;
}

}  // namespace serval
