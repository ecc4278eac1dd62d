// Ends a pass: publishes what was sampled, moves the rows on, and decides for all SMs whether another pass
// follows.
//
// For a row that wanted logits with sampled token t at position p = row.position + 1: output[pass][row] = (t,
// p); the sequence ends if a logit was not finite, if t is one of its stop tokens, or if p >= end_position;
// otherwise the row goes on with (t, p). Rows that wanted none (the inner tokens of a prompt) become
// inactive. The launch ends when no row is active, when the passes asked for are done, or when the host's
// stop flag is set: only this instruction reads it.
#pragma once

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"

namespace serval {

struct Advance {
  TensorId sampled;
  TensorId host_stop;
  TensorId rows;
  TensorId slots;
  TensorId control;
  TensorId output;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Advance::sampled, "sampled", "in: tokens of this pass");
    v(&Advance::host_stop, "host_stop", "in: one word the host may set");
    v(&Advance::rows, "rows", "in and out: the pass's rows");
    v(&Advance::slots, "slots", "in and out: history of the sequences");
    v(&Advance::control, "control", "in and out: the decision");
    v(&Advance::output, "output", "out: the launch's tokens, by pass and row");
  }
};

inline void footprint(const Advance&, const StateView* state, FootprintBuilder<Advance>& f) {
  f.read_rows<&Advance::sampled>(RowSet::kWantLogits, 0, sizeof(SampledToken));
  f.read<&Advance::host_stop>({0, 1, 0, sizeof(uint32_t)});
  f.read_write<&Advance::rows>({0, kMaxRows, 0, sizeof(PassRow)});
  f.read_write<&Advance::control>({0, 1, 0, sizeof(PassControl)});
  f.may_write<&Advance::output>({0, kMaxLaunchPasses, 0, kMaxRows * sizeof(OutputToken)});
  if (state == nullptr) {
    f.may_read_write<&Advance::slots>({0, kMaxSlots, 0, sizeof(SequenceSlot)});
    return;
  }
  for (const PassRow* row = state->rows; row != state->rows + kMaxRows; ++row) {
    if (row_wants_logits(*row)) {
      f.read_write<&Advance::slots>({row->slot, uint64_t{row->slot} + 1, 0, sizeof(SequenceSlot)});
    }
  }
}

inline Cost cost(const Advance&, const CostContext& c) {
  return {.bytes = c.rows * (sizeof(PassRow) + sizeof(SampledToken) + sizeof(OutputToken)), .operations = 0};
}

inline PageNeed pages(const Advance&) {
  return {.pinned = 0, .streaming = 0};
}  // a few words

inline void check(const Advance& op, OperandCheck& c) {
  c.tensor("sampled", op.sampled, DType::kBytes, TensorKind::kState, kMaxRows, sizeof(SampledToken));
  c.tensor("host_stop", op.host_stop, DType::kBytes, TensorKind::kState, 1, sizeof(uint32_t));
  c.tensor("rows", op.rows, DType::kBytes, TensorKind::kState, kMaxRows, sizeof(PassRow));
  c.tensor("slots", op.slots, DType::kBytes, TensorKind::kState, kMaxSlots, sizeof(SequenceSlot));
  c.tensor("control", op.control, DType::kBytes, TensorKind::kState, 1, sizeof(PassControl));
  c.tensor("output", op.output, DType::kBytes, TensorKind::kState, kMaxLaunchPasses,
           kMaxRows * sizeof(OutputToken));
}

}  // namespace serval
