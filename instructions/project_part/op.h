// Attention's inputs over one part of the columns (common/column_parts.h): sums[r, part] = rows of [Wq; Wk;
// Wv] times weighted[r], over the part's columns only. If a rank has few heads, several SMs share an output
// tile in this way; rope_parts adds the parts.
//
// Units are numbered as in instructions/common/qkv_heads.h, and outputs lie in that order: output i of unit u
// is column 8u + i of a part's sums.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/column_parts.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/qkv_heads.h"
#include "instructions/common/residual.h"
#include "instructions/product/product.h"

namespace serval {

struct ProjectPart {
  TensorId weighted;
  TensorId wq;
  TensorId wk;
  TensorId wv;
  TensorId rows;
  TensorId sums;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  uint32_t part;
  uint32_t parts;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr std::array kWeights = {&ProjectPart::wq, &ProjectPart::wk, &ProjectPart::wv};
  static constexpr auto kInput = &ProjectPart::weighted;
  static constexpr KernelSet kKernels = {.vectors = false, .tile_order = false, .one_device = false};

  static constexpr std::array kWindows = {&ProjectPart::first_unit, &ProjectPart::num_units,
                                          &ProjectPart::part, &ProjectPart::first_row,
                                          &ProjectPart::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&ProjectPart::weighted, "weighted", "in [max_rows, hidden] bf16: residual * norm");
    v(&ProjectPart::wq, "wq", "in [q_heads * head_dim, hidden] bf16");
    v(&ProjectPart::wk, "wk", "in [kv_heads * head_dim, hidden] bf16");
    v(&ProjectPart::wv, "wv", "in [kv_heads * head_dim, hidden] bf16");
    v(&ProjectPart::rows, "rows", "in: the pass's rows");
    v(&ProjectPart::sums, "sums",
      "out [max_rows, parts * (q_heads + 2 * kv_heads) * head_dim] f32: part by part");
    v(&ProjectPart::first_unit, "first_unit", "units of 8 rows");
    v(&ProjectPart::num_units, "num_units", "units of 8 rows");
    v(&ProjectPart::hidden, "hidden", "columns");
    v(&ProjectPart::part, "part", "which of the parts");
    v(&ProjectPart::parts, "parts", "parts that the columns are cut into");
    v(&ProjectPart::first_row, "first_row", "rows of the pass");
    v(&ProjectPart::num_rows, "num_rows", "rows of the pass");
  }
};

constexpr ColumnRange columns_of(const ProjectPart& op) {
  return columns_of_part(op.hidden, op.part, op.parts);
}

constexpr Product product(const ProjectPart& op, const ProgramShape& shape) {
  const ColumnRange cols = columns_of(op);
  return {qkv_units(shape.heads), op.hidden, cols.begin, cols.count(), false};
}

constexpr WeightUnit weight_unit(const ProjectPart&, const ProgramShape& shape, uint32_t unit) {
  return weights_of_qkv_unit(shape.heads, unit);
}

constexpr bool tile_halves_apart(const ProjectPart&, const ProgramShape& shape) {
  return qkv_halves_apart(shape.heads);
}

inline void footprint(const ProjectPart& op, const StateView*, FootprintBuilder<ProjectPart>& f) {
  const ColumnRange cols = columns_of(op);
  const uint64_t first = uint64_t{op.part} * qkv_cols(f.shape().heads) + uint64_t{op.first_unit} * kUnitRows;
  f.read_rows<&ProjectPart::weighted>(RowSet::kActive, cols.begin, cols.end);
  read_qkv_weights(op, f, cols.begin, cols.end);
  f.pass_rows<&ProjectPart::rows>();
  f.write_rows<&ProjectPart::sums>(RowSet::kActive, first, first + uint64_t{op.num_units} * kUnitRows);
}

// Checks the number of parts and the tensor of their sums.
template <class Op>
void check_qkv_parts(const Op& op, OperandCheck& c) {
  c.require(op.parts >= 1 && op.parts <= kMaxColumnParts, "parts", op.parts, "1 to 4");
  if (!c.ok()) return;
  c.require(op.parts <= page_image::panels(op.hidden), "parts", op.parts,
            "no more than panels of 1024 columns");
  if (!c.ok()) return;
  c.activation("sums", op.sums, DType::kF32, uint64_t{op.parts} * qkv_cols(c.shape().heads));
}

inline void check(const ProjectPart& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  check_qkv_units(op, c);
  if (!c.ok()) return;
  check_qkv_parts(op, c);
  c.require(op.part < op.parts, "part", op.part, "less than parts");
  c.product_input("weighted", op.weighted, op.hidden);
  check_qkv_weights(op, c);
}

}  // namespace serval
