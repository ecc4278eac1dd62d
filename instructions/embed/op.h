// Token embedding: residual[r, c] = table[token(r), c] as fp32.
#pragma once

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "vm/units.h"

namespace serval {

struct Embed {
  TensorId table;
  TensorId rows;
  TensorId residual;
  uint32_t first_col;
  uint32_t num_cols;
  uint32_t hidden;
  uint32_t vocab;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Embed::table, "table", "in [vocab, hidden] bf16");
    v(&Embed::rows, "rows", "in: the pass's rows");
    v(&Embed::residual, "residual", "out [16, hidden] f32");
    v(&Embed::first_col, "first_col", "columns");
    v(&Embed::num_cols, "num_cols", "columns");
    v(&Embed::hidden, "hidden", "columns");
    v(&Embed::vocab, "vocab", "tokens");
  }
};

inline void footprint(const Embed& op, const StateView*, FootprintBuilder<Embed>& f) {
  const uint64_t end = uint64_t{op.first_col} + op.num_cols;
  f.read<&Embed::table>({0, op.vocab, op.first_col, end});
  f.pass_rows<&Embed::rows>();
  f.active_rows<&Embed::residual>(Access::kWrite, op.first_col, end);
}

inline Cost cost(const Embed& op, const CostContext& c) {
  return {.bytes = uint64_t{c.rows} * op.num_cols * (size_of(DType::kBF16) + size_of(DType::kF32)),
          .operations = 0};
}

inline PageNeed pages(const Embed&) {
  return {.pinned = 0, .streaming = 0};
}  // rows go straight from the table to the residual

inline void check(const Embed& op, OperandCheck& c) {
  c.dimension("hidden", op.hidden, kTileDim);
  c.dimension("vocab", op.vocab, 1);
  c.range("first_col", op.first_col, op.num_cols, op.hidden);
  c.tensor("table", op.table, DType::kBF16, TensorKind::kWeight, op.vocab, op.hidden);
  c.tensor("rows", op.rows, DType::kBytes, TensorKind::kState, kMaxRows, sizeof(PassRow));
  c.tensor("residual", op.residual, DType::kF32, TensorKind::kActivation, kMaxRows, op.hidden);
}

}  // namespace serval
