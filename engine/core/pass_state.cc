#include "engine/core/pass_state.h"

#include <algorithm>
#include <cassert>

namespace serval {

PassState::PassState(StateBlock& state, uint32_t slots)
    : state_(state), free_slots_(slots, true), history_written_(slots), rows_written_(state.rows.size()) {}

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

// A backend may run on a copy of slots and history, which the host's are to keep up with.
void PassState::write_history(const Sequence& sequence) {
  const uint32_t slot = sequence.slot();
  state_.slots[slot].history_length = sequence.length();
  if ((state_.slots[slot].extras & kKeepsHistory) == 0) return;
  uint32_t& written = history_written_[slot];
  std::ranges::copy(sequence.tokens().subspan(written), state_.history_of(slot).begin() + written);
  written = sequence.length();
}

void PassState::write(const PassPlan& plan, std::span<const std::unique_ptr<Sequence>> running) {
  for (const auto& sequence : running) {
    write_history(*sequence);
    KvChain& chain = sequence->chain();
    const uint32_t first = chain.take_first_changed();
    std::ranges::copy(chain.blocks().subspan(first), state_.blocks_of(sequence->slot()).begin() + first);
  }
  row_of_.resize(plan.rows.size());
  uint32_t next = 0;
  for (const bool wants_logits : {true, false}) {
    for (size_t r = 0; r < plan.rows.size(); ++r) {
      if (plan.rows[r].wants_logits == wants_logits) row_of_[r] = next++;
    }
  }
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const PlannedRow& row = plan.rows[r];
    const Sequence& sequence = *running[row.sequence];
    if (row.wants_logits && sequence.is_constrained()) sequence.write_mask(state_.mask_of(sequence.slot()));
    state_.rows[row_of_[r]] = {.active = 1,
                               .wants_logits = row.wants_logits,
                               .slot = sequence.slot(),
                               .token = sequence.tokens()[row.position],
                               .position = row.position};
  }
  for (size_t r = plan.rows.size(); r < rows_written_; ++r) state_.rows[r] = PassRow{};
  rows_written_ = plan.rows.size();
}

}  // namespace serval
