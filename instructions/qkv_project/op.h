// Queries, keys and values of models that then process whole heads: x = rms_norm(residual[r]), then rows of
// [Wq; Wk; Wv] x in fp32. qk_norm_rope continues with them.
//
// Units of 8 output rows are numbered through Wq, then Wk, then Wv.
#pragma once

#include <algorithm>
#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/qkv_heads.h"
#include "instructions/common/residual.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

struct QkvProject {
  TensorId weighted;
  TensorId squares;
  TensorId wq;
  TensorId wk;
  TensorId wv;
  TensorId rows;
  TensorId projected;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  float epsilon;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr std::array kWeights = {&QkvProject::wq, &QkvProject::wk, &QkvProject::wv};
  static constexpr auto kInput = &QkvProject::weighted;
  static constexpr auto kInputSquares = &QkvProject::squares;
  static constexpr KernelSet kKernels = {.tile_order = false, .head_norms = true};

  static constexpr std::array kWindows = {&QkvProject::first_unit, &QkvProject::num_units,
                                          &QkvProject::first_row, &QkvProject::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&QkvProject::weighted, "weighted",
      "in [max_rows, hidden] bf16 or f16, or e4m3 with scales: residual * norm");
    v(&QkvProject::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&QkvProject::wq, "wq", "in [q_heads * head_dim, hidden] bf16 or codes");
    v(&QkvProject::wk, "wk", "in [kv_heads * head_dim, hidden] bf16 or codes");
    v(&QkvProject::wv, "wv", "in [kv_heads * head_dim, hidden] bf16 or codes");
    v(&QkvProject::rows, "rows", "in: the pass's rows");
    v(&QkvProject::projected, "projected", "out [max_rows, (q_heads + 2 * kv_heads) * head_dim] f32");
    v(&QkvProject::first_unit, "first_unit", "units of 8 rows");
    v(&QkvProject::num_units, "num_units", "units of 8 rows");
    v(&QkvProject::hidden, "hidden", "columns");
    v(&QkvProject::epsilon, "epsilon", "of the RMS norm");
    v(&QkvProject::first_row, "first_row", "rows of the pass");
    v(&QkvProject::num_rows, "num_rows", "rows of the pass");
  }
};

// True if every tile of `units` units has rows of only one matrix.
constexpr bool fills_tiles(const HeadShape& heads, uint32_t units) {
  return heads.q_cols() % (units * kUnitRows) == 0 && heads.kv_cols() % (units * kUnitRows) == 0;
}

constexpr bool tile_halves_apart(const QkvProject&, const ProgramShape& shape) {
  return !fills_tiles(shape.heads, kTileUnits);
}

constexpr WeightUnit weight_unit(const QkvProject&, const ProgramShape& shape, uint32_t unit) {
  const uint32_t q_units = shape.heads.q_cols() / kUnitRows, kv_units = shape.heads.kv_cols() / kUnitRows;
  if (unit < q_units) return {0, unit, q_units - unit};
  unit -= q_units;
  if (unit < kv_units) return {1, unit, kv_units - unit};
  unit -= kv_units;
  return {2, unit, kv_units - unit};
}

constexpr Product product(const QkvProject& op, const ProgramShape& shape) {
  return whole_product(qkv_units(shape.heads), op.hidden);
}

namespace qkv_project_detail {

// Reads the part of rows [begin, end) that belongs to a matrix of `rows` rows, whose first is row `first` of
// all.
template <auto Matrix>
void read_matrix(const QkvProject& op, FootprintBuilder<QkvProject>& f, uint64_t begin, uint64_t end,
                 uint64_t first, uint64_t rows) {
  const uint64_t low = std::max(begin, first), high = std::min(end, first + rows);
  if (low < high) f.read<Matrix>({low - first, high - first, 0, op.hidden});
}

}  // namespace qkv_project_detail

inline void footprint(const QkvProject& op, const StateView*, FootprintBuilder<QkvProject>& f) {
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = begin + uint64_t{op.num_units} * kUnitRows;
  f.read_rows<&QkvProject::weighted>(RowSet::kActive, 0, op.hidden);
  f.read_rows<&QkvProject::squares>(RowSet::kActive, 0, op.hidden / square_cols(f.shape().order));
  using qkv_project_detail::read_matrix;
  const uint64_t q_rows = f.shape().heads.q_cols(), kv_rows = f.shape().heads.kv_cols();
  read_matrix<&QkvProject::wq>(op, f, begin, end, 0, q_rows);
  read_matrix<&QkvProject::wk>(op, f, begin, end, q_rows, kv_rows);
  read_matrix<&QkvProject::wv>(op, f, begin, end, q_rows + kv_rows, kv_rows);
  f.pass_rows<&QkvProject::rows>();
  f.write_rows<&QkvProject::projected>(RowSet::kActive, begin, end);
}

inline void check(const QkvProject& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  check_qkv_units(op, c);
  if (!c.ok()) return;
  c.weighted_input(op.weighted, op.squares, op.hidden);
  check_qkv_weights(op, c);
  c.activation("projected", op.projected, DType::kF32, qkv_cols(c.shape().heads));
}

}  // namespace serval
