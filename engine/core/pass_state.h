// The loop's writer of a backend's state block: writes only what has changed since the last launch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/planned_launch.h"
#include "engine/core/planner.h"
#include "engine/core/sequence.h"
#include "vm/state/block.h"

namespace serval {

// Running sequences keep their slots and block-table rows from launch to launch. The results that a launch
// leaves in rows, slots and control are not read. One thread at a time.
class PassState {
 public:
  // Allocates from the first `slots` slots. `drafts`: the rule of sequences with drafts, all but `most`.
  // `drafts_by_model`: the program makes none, and write() leaves the rows for them inactive.
  PassState(StateBlock& state, uint32_t slots, const DraftRule& drafts = {}, bool drafts_by_model = false);

  // Returns the lowest free slot, so that used slots stay together. One must be free.
  uint32_t take_slot();
  void give_back_slot(uint32_t slot) { free_slots_[slot] = true; }
  void write_slot(const Sequence& sequence);

  // Writes the rows of the plan for `sequences` and the changes of their block tables. Rows that want logits
  // come first in the state (vm/state/limits.h). A view may be ahead of its sequence: then its last token is
  // not known yet, and write_token() must follow.
  PlannedLaunch write(const PassPlan& plan, std::span<Sequence* const> sequences,
                      std::span<const SequenceView> views);
  // Writes the token after those that the sequence has, which the launch just written reads.
  void write_token(const Sequence& sequence, int32_t token);
  // For a constrained sequence whose launch goes on: gives the mask for the token that follows `drawn`, which
  // is not accepted yet. If it will not be accepted, any mask does.
  void publish_mask(const Sequence& sequence, const OutputToken& drawn);
  // What the passes of an engine for embeddings have pooled of the sequence's prompt.
  std::span<const float> pooled(const Sequence& sequence) const { return state_.pooled_of(sequence.slot()); }
  // The launch no longer waits for this sequence's masks; the tokens that it draws are dropped.
  void release_mask(const Sequence& sequence) { state_.publish_mask(sequence.slot(), kAnyPosition); }

 private:
  void write_history(const Sequence& sequence);
  void set_drafts(const Sequence& sequence, uint32_t most);
  void write_drafts(uint32_t r, bool is_known, const Sequence& sequence);
  void write_row(uint32_t r, const PlannedRow& planned, const Sequence& sequence);
  bool write_top(const LaunchShare& share);

  StateBlock& state_;
  const DraftRule drafts_;
  const bool drafts_by_model_;
  std::vector<bool> free_slots_;
  std::vector<uint32_t> history_written_;  // for each slot
  std::vector<uint32_t> row_of_token_;     // for each slot, the row whose token is not known yet, if any
  uint32_t rows_written_ = 0;              // by the last write(); later rows are inactive
};

}  // namespace serval
