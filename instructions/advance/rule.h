// State changes at the end of a pass, defined once: for this instruction, and for a backend that evaluates
// the model without a program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "instructions/advance/drafts.h"
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

// A row that has sampled: its entry in the output, and its next token and position.
inline void advance_row(PassRow& row, const SampledToken& sampled, const SequenceSlot& slot,
                        OutputToken& output) {
  const uint32_t position = row.position + 1;
  const FinishReason finish = finish_of(end_rule_of(slot), sampled, position);
  output = {1, 0, row.slot, sampled.token, sampled.log_probability, position, finish};
  row.token = sampled.token;
  row.position = position;
  row.active = finish == FinishReason::kNone ? 1 : 0;
}

// Rows of a sequence that has rows for drafts, rows[0] with its last token. Its next token is the one drawn
// after the last right draft, and rows[0] continues with it. The draft rows become inactive.
inline void advance_drafts(std::span<PassRow> rows, const SampledToken* sampled, const SequenceSlot& slot,
                           OutputToken* output) {
  size_t right = 0;
  uint16_t drafts = 0;
  const auto goes_on = [&](size_t i) {
    return rows[i].active != 0 && right + 1 == i && output[right].finish == FinishReason::kNone &&
           draft_is_right(draft_test_of(slot), rows[i].position, rows[i].token, sampled[right].token);
  };
  advance_row(rows[0], sampled[0], slot, output[0]);
  for (size_t i = 1; i < rows.size(); ++i) {
    output[i] = {};
    drafts += rows[i].active != 0 ? 1 : 0;
    if (goes_on(i)) {
      advance_row(rows[i], sampled[i], slot, output[i]);
      rows[0] = {rows[i].active, 1, rows[i].slot, rows[i].token, rows[i].position, kNoTarget, rows[0].drafts};
      right = i;
    }
    rows[i].active = 0;
  }
  output[0].drafts = drafts;
}

// `sampled` and `output` have an entry for each row, `slots` one for each sequence. Advances the rows and
// fills in the output of the pass: a row that sampled a token of its sequence has a valid entry. Returns true
// if any row is still active. draft_next() must follow.
inline bool advance_rows(std::span<PassRow> rows, const SampledToken* sampled, const SequenceSlot* slots,
                         OutputToken* output) {
  bool any_active = false;
  for (size_t r = 0, count = 1; r < rows.size(); r += count) {
    PassRow& row = rows[r];
    count = 1;
    output[r] = {};
    if (!row_wants_logits(row)) {
      row.active = 0;
      continue;
    }
    count = 1 + std::min<size_t>(row.drafts, rows.size() - r - 1);
    advance_drafts(rows.subspan(r, count), sampled + r, slots[row.slot], output + r);
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

// After append_to_history(): fills the draft rows of the next pass.
inline void draft_next(std::span<PassRow> rows, const OutputToken* output, SequenceSlot* slots,
                       AdjustmentTable<std::byte> adjustments) {
  for (size_t r = 0; r < rows.size(); ++r) {
    const uint32_t drafts = rows[r].drafts;
    if (drafts == 0 || output[r].valid == 0 || drafts >= rows.size() - r) continue;
    SequenceSlot& slot = slots[rows[r].slot];
    uint32_t right = 0;
    while (right < drafts && output[r + 1 + right].valid != 0) ++right;
    count_drafts(slot.drafts, output[r].drafts, right);
    const auto* history = reinterpret_cast<const int32_t*>(adjustments.of(rows[r].slot) + kHistoryOffset);
    write_drafts(slot, {history, std::min(slot.history_length, adjustments.max_context)}, &rows[r]);
  }
}

// Counts the pass and decides whether another follows.
constexpr void advance_control(PassControl& control, bool any_active, bool host_stop) {
  const uint32_t pass = control.passes_done++;
  if (host_stop) control.stopped_by_host = 1;
  if (host_stop || !any_active || control.passes_done >= control.passes_wanted) control.last_pass = pass;
}

}  // namespace serval
