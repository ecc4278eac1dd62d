// residual[r, j] += Σ_k partial[r, rank k's j]: adds the ranks' partial sums in their order, for columns of
// the slice that this rank owns (common/slices.h), and pushes what the residual's next readers need
// (common/residual.h) to all ranks. The residual itself stays with the slice's owner. Where the residual
// begins, with the token's embedding (instructions/embed_push), its former value counts as 0.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/residual.h"
#include "instructions/common/slices.h"
#include "vm/layout/units.h"

namespace serval {

struct ReduceResidual {
  TensorId partial;
  TensorId rows;
  TensorId norm;
  TensorId residual;
  PeerTensors weighted;
  PeerTensors squares;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t out_cols;
  uint32_t rank;
  uint32_t ranks;
  uint32_t logits_only = 0;
  uint32_t first_row = 0;
  uint32_t num_rows;
  uint32_t begins = 0;

  static constexpr KernelSet kKernels = {.one_device = false};

  static constexpr std::array kWindows = {&ReduceResidual::first_unit, &ReduceResidual::num_units,
                                          &ReduceResidual::rank, &ReduceResidual::first_row,
                                          &ReduceResidual::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&ReduceResidual::partial, "partial",
      "in [max_rows, out_cols] f32, or bf16 in the order of tiles: of this rank's slice, from each rank");
    v(&ReduceResidual::rows, "rows", "in: the pass's rows");
    v(&ReduceResidual::norm, "norm", "in [1, out_cols] bf16: of the residual's next readers");
    v(&ReduceResidual::residual, "residual",
      "in (but for begins) and out [max_rows, out_cols] f32: its columns of this slice");
    v(&ReduceResidual::weighted, "weighted", "out, on each rank: [max_rows, out_cols] bf16: residual * norm");
    v(&ReduceResidual::squares, "squares", "out, on each rank: [max_rows, out_cols / square_cols] f32");
    v(&ReduceResidual::first_unit, "first_unit", "units of 8 columns, of this rank's slice");
    v(&ReduceResidual::num_units, "num_units", "units of 8 columns");
    v(&ReduceResidual::out_cols, "out_cols", "columns");
    v(&ReduceResidual::rank, "rank", "rank that adds up");
    v(&ReduceResidual::ranks, "ranks", "ranks");
    v(&ReduceResidual::logits_only, "logits_only", "1: only rows of which logits are wanted; 0: all");
    v(&ReduceResidual::first_row, "first_row", "rows of the pass");
    v(&ReduceResidual::num_rows, "num_rows", "rows of the pass");
    v(&ReduceResidual::begins, "begins", "1: the residual is the sum alone; 0: it is added to");
  }
};

// First column of rank k's partial sums for the instance.
constexpr uint64_t partial_col(const ReduceResidual& op, uint32_t k) {
  const uint64_t width = slices_of(op).slice_cols();
  return k * width + uint64_t{op.first_unit} * kUnitRows - op.rank * width;
}

inline void footprint(const ReduceResidual& op, const StateView*, FootprintBuilder<ReduceResidual>& f) {
  const RowSet rows = computed_rows(op.logits_only != 0);
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows, cols = uint64_t{op.num_units} * kUnitRows;
  const uint64_t end = begin + cols;
  for (uint32_t k = 0; k < op.ranks; ++k) {
    f.read_rows<&ReduceResidual::partial>(rows, partial_col(op, k), partial_col(op, k) + cols);
  }
  f.pass_rows<&ReduceResidual::rows>();
  f.read<&ReduceResidual::norm>({0, 1, begin, end});
  if (op.begins != 0)
    f.write_rows<&ReduceResidual::residual>(rows, begin, end);
  else
    f.read_write_rows<&ReduceResidual::residual>(rows, begin, end);
  const uint32_t of_square = square_cols(f.shape().order);
  for (uint32_t k = 0; k < op.ranks; ++k) {
    f.push_rows<&ReduceResidual::weighted>(k, rows, begin, end);
    f.push_rows<&ReduceResidual::squares>(k, rows, begin / of_square, end / of_square);
  }
}

inline Cost cost(const ReduceResidual& op, const CostView& c) {
  const uint64_t values = c.rows(op.first_row, op.num_rows) * op.num_units * kUnitRows;
  // The ranks' sums, and the residual, which is read and written.
  const uint64_t bytes = op.ranks * c.element_bytes(op.partial) + 2 * c.element_bytes(op.residual);
  return {.cached_bytes = values * bytes,
          .operations = values * op.ranks,
          .pushed_bytes = values * (op.ranks - 1) * c.element_bytes(op.weighted.on(op.rank))};
}

inline PageNeed pages(const ReduceResidual&) {
  return {.pinned = 0, .streaming = 0};
}  // a few values a thread, in registers

inline void check(const ReduceResidual& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.require(op.logits_only <= 1, "logits_only", op.logits_only, "0 or 1");
  c.require(op.begins <= 1, "begins", op.begins, "0 or 1");
  c.rank(op.rank, op.ranks);
  c.slices(op.out_cols, op.ranks);
  if (!c.ok()) return;
  const uint64_t units = op.out_cols / op.ranks / kUnitRows, first = op.rank * units;
  c.require(op.first_unit >= first, "first_unit", op.first_unit, "a unit of the rank's slice");
  c.range("first_unit", op.first_unit, op.num_units, first + units);
  c.square_units(op.first_unit, op.num_units);
  c.activation("partial", op.partial, partial_sum_type(c.shape().order), op.out_cols);
  c.tensor("norm", op.norm, DType::kBF16, TensorKind::kWeight, 1, op.out_cols);
  c.activation("residual", op.residual, DType::kF32, op.out_cols);
  if (!c.ok()) return;
  const uint32_t of_square = square_cols(c.shape().order);
  c.require(op.out_cols % of_square == 0, "out_cols", op.out_cols, "columns in whole sums of squares");
  c.peers("weighted", op.weighted, DType::kBF16, op.out_cols, product_image(c.shape().order));
  c.peers("squares", op.squares, DType::kF32, op.out_cols / of_square);
  c.on_rank("partial", op.partial, op.rank);
}

}  // namespace serval
