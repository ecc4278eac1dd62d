// residual[r, j] += Σ_k weights[j, k] × input[r, k]: the attention's output projection and the MLP's down
// projection; also writes what the residual's next readers need (common/residual.h). The sum is split into
// parts of the columns (common/column_parts.h): residual = ((residual + part 0) + part 1) + …
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/column_parts.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/residual.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

struct MatvecResidual {
  TensorId weights;
  TensorId input;
  TensorId rows;
  TensorId norm;
  TensorId residual;
  TensorId weighted;
  TensorId squares;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t in_cols;
  uint32_t out_cols;
  uint32_t logits_only = 0;
  uint32_t first_row = 0;
  uint32_t num_rows;
  uint32_t parts = 1;

  static constexpr std::array kWeights = {&MatvecResidual::weights};
  static constexpr auto kInput = &MatvecResidual::input;
  static constexpr auto kAddsTo = &MatvecResidual::residual;
  static constexpr KernelSet kKernels = {.ranks = false};

  static constexpr std::array kWindows = {&MatvecResidual::first_unit, &MatvecResidual::num_units,
                                          &MatvecResidual::first_row, &MatvecResidual::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&MatvecResidual::weights, "weights", "in [out_cols, in_cols] bf16 or codes");
    v(&MatvecResidual::input, "input", "in [max_rows, in_cols] bf16 or f16, or e4m3 with scales");
    v(&MatvecResidual::rows, "rows", "in: the pass's rows");
    v(&MatvecResidual::norm, "norm", "in [1, out_cols] bf16: of the residual's next readers");
    v(&MatvecResidual::residual, "residual", "in and out [max_rows, out_cols] f32");
    v(&MatvecResidual::weighted, "weighted", "out [max_rows, out_cols] bf16 or f16: residual * norm");
    v(&MatvecResidual::squares, "squares", "out [max_rows, out_cols / square_cols] f32");
    v(&MatvecResidual::first_unit, "first_unit", "units of 8 rows of weights");
    v(&MatvecResidual::num_units, "num_units", "units of 8 rows of weights");
    v(&MatvecResidual::in_cols, "in_cols", "columns");
    v(&MatvecResidual::out_cols, "out_cols", "columns");
    v(&MatvecResidual::logits_only, "logits_only", "1: only rows of which logits are wanted; 0: all");
    v(&MatvecResidual::first_row, "first_row", "rows of the pass");
    v(&MatvecResidual::num_rows, "num_rows", "rows of the pass");
    v(&MatvecResidual::parts, "parts",
      "parts of the columns, each a sum of its own: 1, or up to 4 in the arithmetic of tiles");
  }
};

constexpr Product product(const MatvecResidual& op, const ProgramShape&) {
  return whole_product(op.out_cols / kUnitRows, op.in_cols, op.logits_only != 0);
}

inline void footprint(const MatvecResidual& op, const StateView*, FootprintBuilder<MatvecResidual>& f) {
  const RowSet rows = computed_rows(op.logits_only != 0);
  const uint64_t first_unit = op.first_unit, end_unit = first_unit + op.num_units;
  const uint64_t begin = first_unit * kUnitRows, end = end_unit * kUnitRows;
  f.read<&MatvecResidual::weights>({begin, end, 0, op.in_cols});
  f.read_rows<&MatvecResidual::input>(rows, 0, op.in_cols);
  f.pass_rows<&MatvecResidual::rows>();
  f.read<&MatvecResidual::norm>({0, 1, begin, end});
  f.read_write_rows<&MatvecResidual::residual>(rows, begin, end);
  f.write_rows<&MatvecResidual::weighted>(rows, begin, end);
  const uint32_t of_square = square_cols(f.shape().order);
  f.write_rows<&MatvecResidual::squares>(rows, begin / of_square, end / of_square);
}

inline void check(const MatvecResidual& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.require(op.logits_only <= 1, "logits_only", op.logits_only, "0 or 1");
  c.dimension("in_cols", op.in_cols, kTileDim);
  c.dimension("out_cols", op.out_cols, kTileDim);
  c.range("first_unit", op.first_unit, op.num_units, op.out_cols / kUnitRows);
  c.square_units(op.first_unit, op.num_units);
  c.weights("weights", op.weights, op.out_cols, op.in_cols);
  c.input_of_product("input", op.input, op.in_cols);
  c.tensor("norm", op.norm, DType::kBF16, TensorKind::kWeight, 1, op.out_cols);
  c.weighted_rows(op.weighted, op.squares, op.out_cols);
  c.activation("residual", op.residual, DType::kF32, op.out_cols);
  c.column_parts(op.parts, op.in_cols);
}

}  // namespace serval
