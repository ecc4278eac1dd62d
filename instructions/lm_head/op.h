// logits[r, j] = weights[j] · rms_norm(residual[r]) for the rows that want logits; and for each unit of 8
// tokens the summary that `sample` reads first (common/unit_softmax.h).
#pragma once

#include <algorithm>
#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/residual.h"
#include "instructions/common/unit_softmax.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

struct LmHead {
  TensorId weighted;
  TensorId squares;
  TensorId weights;
  TensorId rows;
  TensorId logits;
  TensorId unit_softmax;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  uint32_t vocab;
  float epsilon;
  uint32_t first_row = 0;
  uint32_t num_rows;
  uint32_t weights_unit = 0;

  static constexpr KernelSet kKernels = {.pools = false};

  static constexpr std::array kPushed = {&LmHead::logits, &LmHead::unit_softmax};

  static constexpr std::array kWeights = {&LmHead::weights};
  static constexpr auto kInput = &LmHead::weighted;
  static constexpr auto kInputSquares = &LmHead::squares;

  static constexpr std::array kWindows = {&LmHead::first_unit, &LmHead::num_units, &LmHead::first_row,
                                          &LmHead::num_rows, &LmHead::weights_unit};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&LmHead::weighted, "weighted",
      "in [max_rows, hidden] bf16 or f16, or e4m3 with scales: residual * norm");
    v(&LmHead::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&LmHead::weights, "weights",
      "in [vocab, hidden] bf16 or codes; with several ranks, some of these rows");
    v(&LmHead::rows, "rows", "in: the pass's rows");
    v(&LmHead::logits, "logits", "out [logit_rows, vocab] f32, on any rank");
    v(&LmHead::unit_softmax, "unit_softmax",
      "out [logit_rows, units × 2] f32, on any rank: of each unit of 8 tokens a UnitSoftmax "
      "(common/unit_softmax.h)");
    v(&LmHead::first_unit, "first_unit", "units of 8 tokens; the last of the vocabulary may have fewer");
    v(&LmHead::num_units, "num_units", "units of 8 tokens");
    v(&LmHead::hidden, "hidden", "columns");
    v(&LmHead::vocab, "vocab", "tokens");
    v(&LmHead::epsilon, "epsilon", "of the RMS norm");
    v(&LmHead::first_row, "first_row", "rows of the pass");
    v(&LmHead::num_rows, "num_rows", "rows of the pass");
    v(&LmHead::weights_unit, "weights_unit", "unit of 8 tokens that the first rows of weights are of");
  }
};

constexpr Product product(const LmHead& op, const ProgramShape&) {
  return whole_product(static_cast<uint32_t>(vocabulary_units(op.vocab)), op.hidden, true);
}

constexpr WeightUnit weight_unit(const LmHead& op, const ProgramShape& shape, uint32_t unit) {
  return {0, unit - op.weights_unit, product(op, shape).units - unit};
}

inline void footprint(const LmHead& op, const StateView*, FootprintBuilder<LmHead>& f) {
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = std::min<uint64_t>(op.vocab, begin + uint64_t{op.num_units} * kUnitRows);
  f.read_rows<&LmHead::weighted>(RowSet::kWantLogits, 0, op.hidden);
  f.read_rows<&LmHead::squares>(RowSet::kWantLogits, 0, op.hidden / square_cols(f.shape().order));
  const uint64_t before = uint64_t{op.weights_unit} * kUnitRows;
  f.read<&LmHead::weights>({begin - before, end - before, 0, op.hidden});
  f.pass_rows<&LmHead::rows>();
  f.write_rows<&LmHead::logits>(RowSet::kWantLogits, begin, end);
  const uint64_t first_unit = op.first_unit, end_unit = first_unit + op.num_units;
  f.write_rows<&LmHead::unit_softmax>(RowSet::kWantLogits, first_unit * kUnitSoftmaxCols,
                                      end_unit * kUnitSoftmaxCols);
}

inline void check(const LmHead& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_logits(op.first_row, op.num_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  c.limit("vocab", op.vocab, &StateLimits::vocab);
  c.range("first_unit", op.first_unit, op.num_units, vocabulary_units(op.vocab));
  c.weighted_input(op.weighted, op.squares, op.hidden);
  c.vocabulary_rows("weights", op.weights, op.vocab, op.hidden, op.weights_unit, op.first_unit, op.num_units);
  c.logits("logits", op.logits, op.vocab);
  c.logits("unit_softmax", op.unit_softmax, vocabulary_units(op.vocab) * kUnitSoftmaxCols);
  c.same_rank("unit_softmax", op.unit_softmax, op.logits);
}

}  // namespace serval
