// sums[r, j] = Σ_k weights[j, k] × input[r, k] over a part of the columns (common/column_parts.h), so that
// several SMs can share an output tile of a product with few tiles. add_parts adds the parts to the residual.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/column_parts.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

struct MatvecPart {
  TensorId weights;
  TensorId input;
  TensorId rows;
  TensorId sums;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t in_cols;
  uint32_t out_cols;
  uint32_t first_col;
  uint32_t num_cols;
  uint32_t logits_only = 0;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr std::array kWeights = {&MatvecPart::weights};
  static constexpr auto kInput = &MatvecPart::input;
  static constexpr KernelSet kKernels = {.vectors = false, .tile_order = false, .ranks = false};

  static constexpr std::array kWindows = {&MatvecPart::first_unit, &MatvecPart::num_units,
                                          &MatvecPart::first_row, &MatvecPart::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&MatvecPart::weights, "weights", "in [out_cols, in_cols] bf16");
    v(&MatvecPart::input, "input", "in [max_rows, in_cols] bf16");
    v(&MatvecPart::rows, "rows", "in: the pass's rows");
    v(&MatvecPart::sums, "sums", "out [max_rows, out_cols] f32: of this part");
    v(&MatvecPart::first_unit, "first_unit", "units of 8 rows of weights");
    v(&MatvecPart::num_units, "num_units", "units of 8 rows of weights");
    v(&MatvecPart::in_cols, "in_cols", "columns");
    v(&MatvecPart::out_cols, "out_cols", "columns");
    v(&MatvecPart::first_col, "first_col", "columns of weights and input, a multiple of 1024");
    v(&MatvecPart::num_cols, "num_cols",
      "columns of weights and input: up to a multiple of 1024, or to the last");
    v(&MatvecPart::logits_only, "logits_only", "1: only rows of which logits are wanted; 0: all");
    v(&MatvecPart::first_row, "first_row", "rows of the pass");
    v(&MatvecPart::num_rows, "num_rows", "rows of the pass");
  }
};

constexpr Product product(const MatvecPart& op, const ProgramShape&) {
  return {op.out_cols / kUnitRows, op.in_cols, op.first_col, op.num_cols, op.logits_only != 0};
}

inline void footprint(const MatvecPart& op, const StateView*, FootprintBuilder<MatvecPart>& f) {
  const RowSet rows = computed_rows(op.logits_only != 0);
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = begin + uint64_t{op.num_units} * kUnitRows;
  const uint64_t first_col = op.first_col, end_col = first_col + op.num_cols;
  f.read<&MatvecPart::weights>({begin, end, first_col, end_col});
  f.read_rows<&MatvecPart::input>(rows, first_col, end_col);
  f.pass_rows<&MatvecPart::rows>();
  f.write_rows<&MatvecPart::sums>(rows, begin, end);
}

inline void check(const MatvecPart& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.require(op.logits_only <= 1, "logits_only", op.logits_only, "0 or 1");
  c.dimension("in_cols", op.in_cols, kTileDim);
  c.dimension("out_cols", op.out_cols, kTileDim);
  c.range("first_unit", op.first_unit, op.num_units, op.out_cols / kUnitRows);
  c.panels("first_col", op.first_col, op.num_cols, op.in_cols);
  c.weights("weights", op.weights, op.out_cols, op.in_cols);
  c.input_of_product("input", op.input, op.in_cols);
  c.activation("sums", op.sums, DType::kF32, op.out_cols);
}

}  // namespace serval
