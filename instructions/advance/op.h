// Ends a pass: publishes the sampled tokens, advances the rows, and decides for all SMs whether another pass
// follows.
//
// For a row that wanted logits with sampled token t at position p = row.position + 1: output[pass][row] = (t,
// p). The sequence ends if a logit was not finite, if t is one of its stop tokens, or if p >= end_position;
// otherwise the row continues with (t, p). Rows that wanted no logits (the inner tokens of a prompt) become
// inactive. Of a sequence with draft rows (PassRow::drafts), the tokens sampled after right drafts are
// published, too; its first row continues with the last of them, and its draft rows get the drafts of the
// next pass (drafts.h). The launch ends when no row is active, when passes_wanted are done, or when the
// host's stop word is set; only this instruction reads that word.
#pragma once

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "vm/state/adjustments.h"
#include "vm/state/control.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

struct Advance {
  TensorId sampled;
  TensorId host_stop;
  TensorId rows;
  TensorId slots;
  TensorId control;
  TensorId output;
  TensorId adjustments;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Advance::sampled, "sampled", "in: tokens of this pass");
    v(&Advance::host_stop, "host_stop", "in: one word the host may set");
    v(&Advance::rows, "rows", "in and out: the pass's rows");
    v(&Advance::slots, "slots", "in and out: how far the sequences are");
    v(&Advance::control, "control", "in and out: the decision");
    v(&Advance::output, "output", "out [passes of a launch, max_rows]: its tokens");
    v(&Advance::adjustments, "adjustments", "in and out: tokens of sequences that keep their history");
  }
};

inline void footprint(const Advance&, const StateView* state, FootprintBuilder<Advance>& f) {
  const StateLimits& limits = f.shape().limits;
  f.read_rows<&Advance::sampled>({0, logit_rows(limits)}, RowSet::kWantLogits, 0, sizeof(SampledToken));
  f.read<&Advance::host_stop>({0, 1, 0, sizeof(uint32_t)});
  f.read_write<&Advance::rows>({0, limits.rows, 0, sizeof(PassRow)});
  f.read_write<&Advance::control>({0, 1, 0, sizeof(PassControl)});
  f.may_write<&Advance::output>({0, launch_passes(limits.rows), 0, limits.rows * sizeof(OutputToken)});
  const uint64_t history_end = adjustment_bytes(limits.max_context);
  if (state == nullptr) {
    f.may_read_write<&Advance::slots>({0, limits.sequences, 0, sizeof(SequenceSlot)});
    f.may_read_write<&Advance::adjustments>({0, limits.sequences, kHistoryOffset, history_end});
    return;
  }
  for (const PassRow* row = state->rows; row != state->rows + limits.rows; ++row) {
    if (row_wants_logits(*row)) {
      f.read_write<&Advance::slots>({row->slot, uint64_t{row->slot} + 1, 0, sizeof(SequenceSlot)});
      f.may_read_write<&Advance::adjustments>(
          {row->slot, uint64_t{row->slot} + 1, kHistoryOffset, history_end});
    }
  }
}

inline Cost cost(const Advance&, const CostView& c) {
  return {.cached_bytes = c.pass.rows * (sizeof(PassRow) + sizeof(SampledToken) + sizeof(OutputToken)),
          .operations = 0};
}

inline PageNeed pages(const Advance&) {
  return {.pinned = 0, .streaming = 0};
}  // a few words

inline void check(const Advance& op, OperandCheck& c) {
  const StateLimits& limits = c.shape().limits;
  c.pass_rows(op.rows);
  if (!c.ok()) return;
  c.tensor("sampled", op.sampled, DType::kBytes, TensorKind::kState, limits.rows, sizeof(SampledToken));
  c.tensor("host_stop", op.host_stop, DType::kBytes, TensorKind::kState, 1, sizeof(uint32_t));
  c.slots(op.slots);
  c.adjustments(op.adjustments);
  c.tensor("control", op.control, DType::kBytes, TensorKind::kState, 1, sizeof(PassControl));
  c.tensor("output", op.output, DType::kBytes, TensorKind::kState, launch_passes(limits.rows),
           limits.rows * sizeof(OutputToken));
}

}  // namespace serval
