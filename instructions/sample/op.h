// Draws the next token of one row from its logits, as its sequence slot asks (sampler.h has the rules).
#pragma once

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/unit_softmax.h"

namespace serval {

struct Sample {
  TensorId logits;
  TensorId unit_softmax;
  TensorId rows;
  TensorId slots;
  TensorId sampled;
  uint32_t row;
  uint32_t vocab;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Sample::logits, "logits", "in [16, vocab] f32");
    v(&Sample::unit_softmax, "unit_softmax",
      "in [16, units × 2] f32: of each unit of 8 tokens a UnitSoftmax (common/unit_softmax.h)");
    v(&Sample::rows, "rows", "in: the pass's rows");
    v(&Sample::slots, "slots", "in: sampling parameters and history of the sequences");
    v(&Sample::sampled, "sampled", "out: token and log-probability of the row");
    v(&Sample::row, "row", "row of the pass");
    v(&Sample::vocab, "vocab", "tokens");
  }
};

inline void footprint(const Sample& op, const StateView* state, FootprintBuilder<Sample>& f) {
  f.pass_rows<&Sample::rows>();
  const uint64_t row = op.row;
  if (state != nullptr && !row_wants_logits(state->rows[row])) return;
  const uint64_t slot_begin = state == nullptr ? 0 : state->rows[row].slot;
  const uint64_t slot_end = state == nullptr ? kMaxSlots : slot_begin + 1;
  f.read<&Sample::logits>({row, row + 1, 0, op.vocab}, Part::kLogitsRows);
  f.read<&Sample::unit_softmax>({row, row + 1, 0, vocabulary_units(op.vocab) * kUnitSoftmaxCols},
                                Part::kLogitsRows);
  f.read<&Sample::slots>({slot_begin, slot_end, 0, sizeof(SequenceSlot)});
  f.write<&Sample::sampled>({row, row + 1, 0, sizeof(SampledToken)}, Part::kLogitsRows);
}

inline Cost cost(const Sample& op, const CostContext& c) {
  const uint64_t units = op.row < c.rows ? vocabulary_units(op.vocab) : 0;
  return {.bytes = units * sizeof(UnitSoftmax), .operations = units * kUnitSoftmaxCols};
}

inline PageNeed pages(const Sample&) {
  return {.pinned = 0, .streaming = 1};
}  // a page of logits at a time

inline void check(const Sample& op, OperandCheck& c) {
  c.limit("vocab", op.vocab, &StateLimits::vocab);
  c.range("row", op.row, 1, kMaxRows);
  c.tensor("logits", op.logits, DType::kF32, TensorKind::kActivation, kMaxRows, op.vocab);
  c.tensor("unit_softmax", op.unit_softmax, DType::kF32, TensorKind::kActivation, kMaxRows,
           vocabulary_units(op.vocab) * kUnitSoftmaxCols);
  c.tensor("rows", op.rows, DType::kBytes, TensorKind::kState, kMaxRows, sizeof(PassRow));
  c.tensor("slots", op.slots, DType::kBytes, TensorKind::kState, kMaxSlots, sizeof(SequenceSlot));
  c.tensor("sampled", op.sampled, DType::kBytes, TensorKind::kState, kMaxRows, sizeof(SampledToken));
}

}  // namespace serval
