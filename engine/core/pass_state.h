// The loop's hand on a backend's state block: writes what has changed since the last launch, and no more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/planned_launch.h"
#include "engine/core/planner.h"
#include "engine/core/sequence.h"
#include "vm/state/block.h"

namespace serval {

// Slots and block-table rows of sequences that run stay in the state block from launch to launch. Nothing
// that a launch leaves in rows, slots and control is read. One thread at a time.
class PassState {
 public:
  // The first `slots` slots are given out.
  PassState(StateBlock& state, uint32_t slots);

  // The lowest one that is free, so that those in use stay together. There is one.
  uint32_t take_slot();
  void give_back_slot(uint32_t slot) { free_slots_[slot] = true; }
  void write_slot(const Sequence& sequence);

  // The rows of the plan for `sequences`, and what has changed of their block tables. Rows that want logits
  // come first in the state (vm/state/limits.h). A view may be of a later moment than its sequence: then its
  // last token is not known yet, and write_token() follows.
  PlannedLaunch write(const PassPlan& plan, std::span<Sequence* const> sequences,
                      std::span<const SequenceView> views);
  // The token behind those that the sequence has, which the launch that was written runs.
  void write_token(const Sequence& sequence, int32_t token);
  // Of a constrained sequence, for a launch that runs on: the mask of the token that is drawn behind this
  // one, which is not accepted yet; where it will not be, any mask.
  void give_mask(const Sequence& sequence, const OutputToken& drawn);
  // Its launch waits for no mask any more; what it draws is dropped.
  void release_mask(const Sequence& sequence) { state_.give_mask(sequence.slot(), kAnyPosition); }

 private:
  void write_history(const Sequence& sequence);
  void write_row(uint32_t r, const PlannedRow& planned, const Sequence& sequence);

  StateBlock& state_;
  std::vector<bool> free_slots_;
  std::vector<uint32_t> history_written_;  // tokens of each slot's
  std::vector<uint32_t> row_of_token_;  // for each slot the row whose token is not known yet, if there is one
  uint32_t rows_written_ = 0;           // by the last write(): others are not active
};

}  // namespace serval
