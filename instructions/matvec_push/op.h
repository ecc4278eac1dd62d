// partial[r, j] = Σ_k weights[j, k] × input[r, k] over one rank's columns of a matrix that is split by
// columns, pushed to the ranks that add up the partial sums (instructions/reduce_residual). Each of `ranks`
// ranks adds up out_cols / ranks neighbouring columns, its slice. Rank k's share of them lies in columns [k ×
// out_cols / ranks, (k + 1) × out_cols / ranks) of the owner's `partial`, in the order's type
// (partial_sum_type()).
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/slices.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

struct MatvecPush {
  TensorId weights;
  TensorId input;
  TensorId rows;
  PeerTensors partial;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t in_cols;
  uint32_t out_cols;
  uint32_t rank;
  uint32_t ranks;
  uint32_t logits_only = 0;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr std::array kWeights = {&MatvecPush::weights};
  static constexpr auto kInput = &MatvecPush::input;
  static constexpr KernelSet kKernels = {.one_device = false};

  static constexpr std::array kWindows = {&MatvecPush::first_unit, &MatvecPush::num_units, &MatvecPush::rank,
                                          &MatvecPush::first_row, &MatvecPush::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&MatvecPush::weights, "weights", "in [out_cols, in_cols] bf16 or codes");
    v(&MatvecPush::input, "input", "in [max_rows, in_cols] bf16 or f16");
    v(&MatvecPush::rows, "rows", "in: the pass's rows");
    v(&MatvecPush::partial, "partial",
      "out, on each rank: [max_rows, out_cols] f32, or bf16 in the order of tiles, a slice from each rank");
    v(&MatvecPush::first_unit, "first_unit", "units of 8 rows of weights");
    v(&MatvecPush::num_units, "num_units", "units of 8 rows of weights");
    v(&MatvecPush::in_cols, "in_cols", "columns");
    v(&MatvecPush::out_cols, "out_cols", "columns");
    v(&MatvecPush::rank, "rank", "rank that computes");
    v(&MatvecPush::ranks, "ranks", "ranks");
    v(&MatvecPush::logits_only, "logits_only", "1: only rows of which logits are wanted; 0: all");
    v(&MatvecPush::first_row, "first_row", "rows of the pass");
    v(&MatvecPush::num_rows, "num_rows", "rows of the pass");
  }
};

constexpr Product product(const MatvecPush& op, const ProgramShape&) {
  return whole_product(op.out_cols / kUnitRows, op.in_cols, op.logits_only != 0);
}

inline void footprint(const MatvecPush& op, const StateView*, FootprintBuilder<MatvecPush>& f) {
  const RowSet rows = computed_rows(op.logits_only != 0);
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = begin + uint64_t{op.num_units} * kUnitRows;
  f.read<&MatvecPush::weights>({begin, end, 0, op.in_cols});
  f.read_rows<&MatvecPush::input>(rows, 0, op.in_cols);
  f.pass_rows<&MatvecPush::rows>();
  for_slices(slices_of(op), begin, end, [&](const SlicePart& part) {
    f.push_rows<&MatvecPush::partial>(part.owner, rows, part.partial_col, part.partial_col + part.cols);
  });
}

inline Cost cost(const MatvecPush& op, const CostView& c) {
  Cost cost = cost_of_product(op, c);
  const uint64_t sums = c.rows(op.first_row, op.num_rows) * op.num_units * kUnitRows;
  cost.pushed_bytes = of_other_slices(sums * c.element_bytes(op.partial.on(op.rank)), op.ranks);
  return cost;
}

inline void check(const MatvecPush& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.require(op.logits_only <= 1, "logits_only", op.logits_only, "0 or 1");
  c.dimension("in_cols", op.in_cols, kTileDim);
  c.rank(op.rank, op.ranks);
  c.slices(op.out_cols, op.ranks);
  c.range("first_unit", op.first_unit, op.num_units, op.out_cols / kUnitRows);
  c.weights("weights", op.weights, op.out_cols, op.in_cols);
  if (!c.ok()) return;
  c.product_input("input", op.input, op.in_cols);
  c.peers("partial", op.partial, partial_sum_type(c.shape().order), op.out_cols);
  c.on_rank("weights", op.weights, op.rank);
}

}  // namespace serval
