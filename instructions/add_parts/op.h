// residual[r, j] = ((residual[r, j] + part0[r, j]) + part1[r, j]) + …: adds the sums of matvec_part over the
// parts of a matrix's columns, and writes what the residual's next readers need (common/residual.h). The bits
// are those of one matvec_residual with as many parts.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/column_parts.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/residual.h"
#include "instructions/common/tile_shape.h"
#include "vm/layout/units.h"

namespace serval {

struct AddParts {
  TensorId rows;
  TensorId norm;
  TensorId residual;
  TensorId weighted;
  TensorId squares;
  TensorId part0;
  TensorId part1;
  TensorId part2;  // part0's tensor if there are fewer parts; likewise part3
  TensorId part3;
  uint32_t num_parts;
  uint32_t out_cols;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t logits_only = 0;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr KernelSet kKernels = {.vectors = false, .tile_order = false, .ranks = false};

  static constexpr std::array kWindows = {&AddParts::first_unit, &AddParts::num_units, &AddParts::first_row,
                                          &AddParts::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&AddParts::rows, "rows", "in: the pass's rows");
    v(&AddParts::norm, "norm", "in [1, out_cols] bf16: of the residual's next readers");
    v(&AddParts::residual, "residual", "in and out [max_rows, out_cols] f32");
    v(&AddParts::weighted, "weighted", "out [max_rows, out_cols] bf16: residual * norm");
    v(&AddParts::squares, "squares", "out [max_rows, out_cols / square_cols] f32");
    v(&AddParts::part0, "part0", "in [max_rows, out_cols] f32");
    v(&AddParts::part1, "part1", "in [max_rows, out_cols] f32");
    v(&AddParts::part2, "part2", "in [max_rows, out_cols] f32; part0's tensor if num_parts is less than 3");
    v(&AddParts::part3, "part3", "in [max_rows, out_cols] f32; part0's tensor if num_parts is less than 4");
    v(&AddParts::num_parts, "num_parts", "parts: 2 to 4");
    v(&AddParts::out_cols, "out_cols", "columns");
    v(&AddParts::first_unit, "first_unit", "units of 8 columns");
    v(&AddParts::num_units, "num_units", "units of 8 columns");
    v(&AddParts::logits_only, "logits_only", "1: only rows of which logits are wanted; 0: all");
    v(&AddParts::first_row, "first_row", "rows of the pass");
    v(&AddParts::num_rows, "num_rows", "rows of the pass");
  }
};

// Parts from index num_parts on are not read.
constexpr std::array<TensorId, kMaxColumnParts> parts_of(const AddParts& op) {
  return {op.part0, op.part1, op.part2, op.part3};
}

inline void footprint(const AddParts& op, const StateView*, FootprintBuilder<AddParts>& f) {
  const RowSet rows = computed_rows(op.logits_only != 0);
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = begin + uint64_t{op.num_units} * kUnitRows;
  f.pass_rows<&AddParts::rows>();
  f.read<&AddParts::norm>({0, 1, begin, end});
  f.read_write_rows<&AddParts::residual>(rows, begin, end);
  f.write_rows<&AddParts::weighted>(rows, begin, end);
  const uint32_t of_square = square_cols(f.shape().order);
  f.write_rows<&AddParts::squares>(rows, begin / of_square, end / of_square);
  f.read_rows<&AddParts::part0>(rows, begin, end);
  f.read_rows<&AddParts::part1>(rows, begin, end);
  if (op.num_parts > 2) f.read_rows<&AddParts::part2>(rows, begin, end);
  if (op.num_parts > 3) f.read_rows<&AddParts::part3>(rows, begin, end);
}

inline Cost cost(const AddParts& op, const CostView& c) {
  const uint64_t values = c.rows(op.first_row, op.num_rows) * op.num_units * kUnitRows;
  return {.cached_bytes = values * (op.num_parts + 1) * c.element_bytes(op.residual),
          .operations = values * op.num_parts};
}

inline PageNeed pages(const AddParts&) {
  return {.pinned = 0, .streaming = 0};
}  // a few values a thread, in registers

inline void check(const AddParts& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.require(op.logits_only <= 1, "logits_only", op.logits_only, "0 or 1");
  c.dimension("out_cols", op.out_cols, kTileDim);
  c.range("first_unit", op.first_unit, op.num_units, op.out_cols / kUnitRows);
  c.square_units(op.first_unit, op.num_units);
  c.tensor("norm", op.norm, DType::kBF16, TensorKind::kWeight, 1, op.out_cols);
  c.weighted_rows(op.weighted, op.squares, op.out_cols);
  c.activation("residual", op.residual, DType::kF32, op.out_cols);
  c.require(op.num_parts >= 2 && op.num_parts <= kMaxColumnParts, "num_parts", op.num_parts, "2 to 4");
  c.activation("part0", op.part0, DType::kF32, op.out_cols);
  c.activation("part1", op.part1, DType::kF32, op.out_cols);
  c.activation("part2", op.part2, DType::kF32, op.out_cols);
  c.activation("part3", op.part3, DType::kF32, op.out_cols);
  constexpr const char* kNames[] = {"part0", "part1", "part2", "part3"};
  for (uint32_t p = 2; p < kMaxColumnParts; ++p) {
    c.require((p < op.num_parts) == (parts_of(op)[p] != op.part0), kNames[p], parts_of(op)[p].index,
              "part0's tensor from num_parts on, and only there");
  }
}

}  // namespace serval
