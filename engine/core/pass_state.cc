#include "engine/core/pass_state.h"

#include <algorithm>
#include <cassert>

#include "instructions/advance/drafts.h"

namespace serval {

PassState::PassState(StateBlock& state, uint32_t slots, const DraftRule& drafts, bool drafts_by_model)
    : state_(state),
      drafts_(drafts),
      drafts_by_model_(drafts_by_model),
      free_slots_(slots, true),
      history_written_(slots),
      row_of_token_(slots) {}

uint32_t PassState::take_slot() {
  const auto slot = std::find(free_slots_.begin(), free_slots_.end(), true);
  assert(slot != free_slots_.end());
  *slot = false;
  return static_cast<uint32_t>(slot - free_slots_.begin());
}

void PassState::write_slot(const Sequence& sequence) {
  const uint32_t slot = sequence.slot();
  state_.slots[slot] = sequence.slot_state();
  std::ranges::transform(sequence.logit_bias(), state_.biases_of(slot).begin(), [](const LogitBias& b) {
    return TokenBias{b.token, b.bias};
  });
  history_written_[slot] = 0;
}

// A backend may run on a copy of the history; this keeps the host's up to date.
void PassState::write_history(const Sequence& sequence) {
  const uint32_t slot = sequence.slot();
  if ((state_.slots[slot].extras & kKeepsHistory) == 0) return;
  uint32_t& written = history_written_[slot];
  std::ranges::copy(sequence.tokens().subspan(written), state_.history_of(slot).begin() + written);
  written = sequence.length();
}

// Sequences without drafts need no history for them.
void PassState::set_drafts(const Sequence& sequence, uint32_t most) {
  SequenceSlot& slot = state_.slots[sequence.slot()];
  slot.drafts = most > 0 ? drafts_ : DraftRule{};
  slot.drafts.most = drafts_by_model_ ? 0 : most;
  slot.extras = extras_of(slot);
}

void PassState::write_row(uint32_t r, const PlannedRow& planned, const Sequence& sequence) {
  const bool is_known = planned.position < sequence.length();
  if (!is_known) row_of_token_[sequence.slot()] = r;
  if (planned.draws && is_known && sequence.is_constrained()) {
    sequence.write_mask(state_.mask_of(sequence.slot()));
    state_.publish_mask(sequence.slot(), planned.position + 1);
  }
  state_.rows[r] = {
      .active = 1,
      .wants_logits = planned.wants_logits(),
      .slot = sequence.slot(),
      .token = is_known ? sequence.tokens()[planned.position] : 0,
      .position = planned.position,
      .target = planned.scores && !sequence.is_pooled() ? sequence.tokens()[planned.position + 1] : kNoTarget,
      .drafts = planned.drafts,
      .adds = planned.scores && sequence.adds_hidden_state(planned.position)};
  if (planned.drafts > 0) write_drafts(r, is_known, sequence);
}

// The rows after row r. A launch that is planned ahead has no drafts in its first pass.
void PassState::write_drafts(uint32_t r, bool is_known, const Sequence& sequence) {
  if (is_known)
    return serval::write_drafts(state_.slots[sequence.slot()], sequence.tokens(), &state_.rows[r]);
  std::ranges::fill(state_.rows.subspan(r + 1, state_.rows[r].drafts), PassRow{});
}

// Generated tokens and those of the prompt may want different numbers of likeliest tokens. Returns whether
// any are wanted in this launch.
bool PassState::write_top(const LaunchShare& share) {
  SequenceSlot& slot = state_.slots[share.sequence->slot()];
  slot.num_top = share.sequence->num_top(share.scored > 0);
  slot.extras = extras_of(slot);
  return slot.num_top > 0 && (share.scored > 0 || share.logit_row);
}

PlannedLaunch PassState::write(const PassPlan& plan, std::span<Sequence* const> sequences,
                               std::span<const SequenceView> views) {
  for (size_t i = 0; i < sequences.size(); ++i) {
    const uint32_t slot = sequences[i]->slot();
    state_.slots[slot].history_length = views[i].length;
    set_drafts(*sequences[i], std::min(plan.drafts, views[i].drafts));
    write_history(*sequences[i]);
    KvChain& chain = sequences[i]->chain();
    const uint32_t first = chain.take_first_changed();
    std::ranges::copy(chain.blocks().subspan(first), state_.blocks_of(slot).begin() + first);
  }
  PlannedLaunch launch{.passes = plan.passes, .reads_prompts = plan.reads_prompts};
  const auto wants_logits = [](const PlannedRow& row) { return row.wants_logits(); };
  launch.logit_rows = static_cast<uint32_t>(std::ranges::count_if(plan.rows, wants_logits));
  launch.shares.reserve(sequences.size());
  uint32_t next_logit_row = 0, next_other = launch.logit_rows;
  for (const PlannedRow& row : plan.rows) {
    if (row.is_draft) {
      ++next_logit_row;
      continue;
    }
    Sequence* const sequence = sequences[row.sequence];
    // The rows of a sequence are consecutive.
    if (launch.shares.empty() || launch.shares.back().sequence != sequence)
      launch.shares.push_back({.sequence = sequence});
    LaunchShare& share = launch.shares.back();
    ++share.rows;
    if (row.draws) share.logit_row = next_logit_row;
    share.drafts += row.drafts;
    if (row.scores && share.scored++ == 0) share.first_scored = next_logit_row;
    write_row(row.wants_logits() ? next_logit_row++ : next_other++, row, *sequence);
  }
  for (const LaunchShare& share : launch.shares) launch.lists_top |= write_top(share);
  const auto rows = static_cast<uint32_t>(plan.rows.size());
  for (uint32_t r = rows; r < rows_written_; ++r) state_.rows[r] = PassRow{};
  rows_written_ = rows;
  launch.rows = static_cast<uint32_t>(std::ranges::count_if(state_.rows.first(rows), row_is_active));
  return launch;
}

void PassState::write_token(const Sequence& sequence, int32_t token) {
  const uint32_t slot = sequence.slot();
  state_.rows[row_of_token_[slot]].token = token;
  if ((state_.slots[slot].extras & kKeepsHistory) == 0) return;
  write_history(sequence);
  state_.history_of(slot)[sequence.length()] = token;
}

void PassState::publish_mask(const Sequence& sequence, const OutputToken& drawn) {
  const bool is_dropped = sequence.finished() || drawn.valid == 0 || drawn.position != sequence.length();
  if (is_dropped) return release_mask(sequence);
  sequence.write_mask(state_.mask_of(sequence.slot()), drawn.token);
  state_.publish_mask(sequence.slot(), drawn.position + 1);
}

}  // namespace serval
