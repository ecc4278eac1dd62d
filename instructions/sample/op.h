// Draws the next tokens of some rows from their logits, as their sequence slots ask (sampler.h has the
// rules). The kernels on a GPU take one row an instance.
#pragma once

#include <algorithm>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/unit_softmax.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

struct Sample {
  TensorId logits;
  TensorId unit_softmax;
  TensorId rows;
  TensorId slots;
  TensorId sampled;
  uint32_t first_row;
  uint32_t num_rows;
  uint32_t vocab;
  uint32_t max_rows;
  uint32_t max_sequences;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Sample::logits, "logits", "in [logit_rows, vocab] f32");
    v(&Sample::unit_softmax, "unit_softmax",
      "in [logit_rows, units × 2] f32: of each unit of 8 tokens a UnitSoftmax (common/unit_softmax.h)");
    v(&Sample::rows, "rows", "in: the pass's rows");
    v(&Sample::slots, "slots", "in: sampling parameters and history of the sequences");
    v(&Sample::sampled, "sampled", "out [max_rows]: tokens and their log-probabilities");
    v(&Sample::first_row, "first_row", "rows of the pass");
    v(&Sample::num_rows, "num_rows", "rows of the pass");
    v(&Sample::vocab, "vocab", "tokens");
    v(&Sample::max_rows, "max_rows", "rows of a pass");
    v(&Sample::max_sequences, "max_sequences", "sequences of a state: its slots");
  }
};

inline void footprint(const Sample& op, const StateView* state, FootprintBuilder<Sample>& f) {
  const uint64_t unit_cols = vocabulary_units(op.vocab) * kUnitSoftmaxCols;
  const uint64_t begin = op.first_row, end = begin + op.num_rows;
  f.pass_rows<&Sample::rows>();
  if (state == nullptr) f.read<&Sample::slots>({0, op.max_sequences, 0, sizeof(SequenceSlot)});
  const auto touch = [&](uint64_t first, uint64_t last) {
    f.read<&Sample::logits>({first, last, 0, op.vocab}, Part::kLogitsRows);
    f.read<&Sample::unit_softmax>({first, last, 0, unit_cols}, Part::kLogitsRows);
    f.write<&Sample::sampled>({first, last, 0, sizeof(SampledToken)}, Part::kLogitsRows);
  };
  if (state == nullptr) return touch(begin, end);
  for (uint64_t row = begin; row < end; ++row) {
    if (!row_wants_logits(state->rows[row])) continue;
    const uint64_t slot = state->rows[row].slot;
    f.read<&Sample::slots>({slot, slot + 1, 0, sizeof(SequenceSlot)});
    touch(row, row + 1);
  }
}

inline Cost cost(const Sample& op, const CostContext& c) {
  const uint64_t rows = op.first_row < c.rows ? std::min(op.num_rows, c.rows - op.first_row) : 0;
  const uint64_t units = rows * vocabulary_units(op.vocab);
  return {.bytes = units * sizeof(UnitSoftmax), .operations = units * kUnitSoftmaxCols};
}

inline PageNeed pages(const Sample&) {
  return {.pinned = 0, .streaming = 1};
}  // a page of logits at a time

inline void check(const Sample& op, OperandCheck& c) {
  c.pass_rows(op.rows, op.max_rows);
  c.limit("vocab", op.vocab, &StateLimits::vocab);
  c.rows_of_logits(op.first_row, op.num_rows);
  c.logits("logits", op.logits, op.vocab);
  c.logits("unit_softmax", op.unit_softmax, vocabulary_units(op.vocab) * kUnitSoftmaxCols);
  c.slots(op.slots, op.max_sequences);
  c.tensor("sampled", op.sampled, DType::kBytes, TensorKind::kState, op.max_rows, sizeof(SampledToken));
}

}  // namespace serval
