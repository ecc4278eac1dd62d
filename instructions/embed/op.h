// Token embedding: residual[r, c] = table[token(r), c] as fp32, and what its readers need
// (common/residual.h).
#pragma once

#include <algorithm>
#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/residual.h"
#include "vm/layout/units.h"

namespace serval {

struct Embed {
  TensorId table;
  TensorId rows;
  TensorId norm;
  TensorId residual;
  TensorId weighted;
  TensorId squares;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  uint32_t vocab;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr std::array kWindows = {&Embed::first_unit, &Embed::num_units, &Embed::first_row,
                                          &Embed::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Embed::table, "table", "in [vocab, hidden] bf16");
    v(&Embed::rows, "rows", "in: the pass's rows");
    v(&Embed::norm, "norm", "in [1, hidden] bf16: of the residual's next readers");
    v(&Embed::residual, "residual", "out [max_rows, hidden] f32");
    v(&Embed::weighted, "weighted", "out [max_rows, hidden] bf16 or f16: residual * norm");
    v(&Embed::squares, "squares", "out [max_rows, hidden / square_cols] f32");
    v(&Embed::first_unit, "first_unit", "units of 8 columns");
    v(&Embed::num_units, "num_units", "units of 8 columns");
    v(&Embed::hidden, "hidden", "columns");
    v(&Embed::vocab, "vocab", "tokens");
    v(&Embed::first_row, "first_row", "rows of the pass");
    v(&Embed::num_rows, "num_rows", "rows of the pass");
  }
};

inline void footprint(const Embed& op, const StateView*, FootprintBuilder<Embed>& f) {
  const uint64_t first_unit = op.first_unit, end_unit = first_unit + op.num_units;
  const uint64_t begin = first_unit * kUnitRows, end = end_unit * kUnitRows;
  f.read<&Embed::table>({0, op.vocab, begin, end});
  f.read<&Embed::norm>({0, 1, begin, end});
  f.pass_rows<&Embed::rows>();
  f.write_rows<&Embed::residual>(RowSet::kActive, begin, end);
  f.write_rows<&Embed::weighted>(RowSet::kActive, begin, end);
  const uint32_t of_square = square_cols(f.shape().order);
  f.write_rows<&Embed::squares>(RowSet::kActive, begin / of_square, end / of_square);
}

inline Cost cost(const Embed& op, const CostView& c) {
  return {.bytes = c.rows(op.first_row, op.num_rows) * op.num_units * kUnitRows *
                   (c.element_bytes(op.table) + c.element_bytes(op.weighted) + c.element_bytes(op.residual)),
          .operations = 0};
}

inline PageNeed pages(const Embed&) {
  return {.pinned = 0, .streaming = 0};
}  // rows go straight from the table to the residual

inline void check(const Embed& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.limit("vocab", op.vocab, &StateLimits::vocab);
  c.range("first_unit", op.first_unit, op.num_units, op.hidden / kUnitRows);
  c.square_units(op.first_unit, op.num_units);
  c.tensor("table", op.table, DType::kBF16, TensorKind::kWeight, op.vocab, op.hidden);
  c.tensor("norm", op.norm, DType::kBF16, TensorKind::kWeight, 1, op.hidden);
  c.weighted_rows(op.weighted, op.squares, op.hidden);
  c.activation("residual", op.residual, DType::kF32, op.hidden);
}

}  // namespace serval
