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
  uint32_t q_rows;
  uint32_t kv_rows;
  float epsilon;
  uint32_t max_rows;
  uint32_t first_row = 0;
  uint32_t num_rows;
  uint32_t square_cols = kSquareColsOfMatvec;

  static constexpr std::array kWeights = {&QkvProject::wq, &QkvProject::wk, &QkvProject::wv};
  static constexpr auto kInput = &QkvProject::weighted;
  static constexpr auto kInputSquares = &QkvProject::squares;
  static constexpr KernelSet kKernels = {.tile_order = false, .head_norms = true};

  static constexpr std::array kWindows = {&QkvProject::first_unit, &QkvProject::num_units,
                                          &QkvProject::first_row, &QkvProject::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&QkvProject::weighted, "weighted", "in [max_rows, hidden] bf16 or f16: residual * norm");
    v(&QkvProject::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&QkvProject::wq, "wq", "in [q_rows, hidden] bf16 or e4m3");
    v(&QkvProject::wk, "wk", "in [kv_rows, hidden] bf16 or e4m3");
    v(&QkvProject::wv, "wv", "in [kv_rows, hidden] bf16 or e4m3");
    v(&QkvProject::rows, "rows", "in: the pass's rows");
    v(&QkvProject::projected, "projected", "out [max_rows, q_rows + 2 * kv_rows] f32");
    v(&QkvProject::first_unit, "first_unit", "units of 8 rows");
    v(&QkvProject::num_units, "num_units", "units of 8 rows");
    v(&QkvProject::hidden, "hidden", "columns");
    v(&QkvProject::q_rows, "q_rows", "weight rows");
    v(&QkvProject::kv_rows, "kv_rows", "weight rows");
    v(&QkvProject::epsilon, "epsilon", "of the RMS norm");
    v(&QkvProject::max_rows, "max_rows", "rows of a pass");
    v(&QkvProject::first_row, "first_row", "rows of the pass");
    v(&QkvProject::num_rows, "num_rows", "rows of the pass");
    v(&QkvProject::square_cols, "square_cols", "columns whose squares are added up together: 8 or 64");
  }
};

constexpr uint32_t projected_cols(const QkvProject& op) {
  return op.q_rows + 2 * op.kv_rows;
}

// True if every tile of `units` units has rows of only one matrix.
constexpr bool fills_tiles(const QkvProject& op, uint32_t units) {
  return op.q_rows % (units * kUnitRows) == 0 && op.kv_rows % (units * kUnitRows) == 0;
}

constexpr bool tile_halves_apart(const QkvProject& op) {
  return !fills_tiles(op, kTileUnits);
}

constexpr WeightUnit weight_unit(const QkvProject& op, uint32_t unit) {
  const uint32_t q_units = op.q_rows / kUnitRows, kv_units = op.kv_rows / kUnitRows;
  if (unit < q_units) return {0, unit, q_units - unit};
  unit -= q_units;
  if (unit < kv_units) return {1, unit, kv_units - unit};
  unit -= kv_units;
  return {2, unit, kv_units - unit};
}

namespace qkv_project_detail {

// Each matrix has whole halves of a GEMM's tile (instructions/product/orders/sm90/tile_stream.cuh).
inline constexpr uint32_t kRowsMultiple = 64;

// Reads the part of rows [begin, end) that belongs to a matrix of `rows` rows, whose first is row `first` of
// all.
template <auto Matrix>
void read_matrix(const QkvProject& op, FootprintBuilder<QkvProject>& f, uint64_t begin, uint64_t end,
                 uint64_t first, uint64_t rows) {
  const uint64_t low = std::max(begin, first), high = std::min(end, first + rows);
  if (low < high) f.read<Matrix>({low - first, high - first, 0, op.hidden});
}

}  // namespace qkv_project_detail

constexpr Product product(const QkvProject& op) {
  return whole_product(projected_cols(op) / kUnitRows, op.hidden);
}

inline void footprint(const QkvProject& op, const StateView*, FootprintBuilder<QkvProject>& f) {
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = begin + uint64_t{op.num_units} * kUnitRows;
  f.read_rows<&QkvProject::weighted>(RowSet::kActive, 0, op.hidden);
  f.read_rows<&QkvProject::squares>(RowSet::kActive, 0, op.hidden / op.square_cols);
  using qkv_project_detail::read_matrix;
  read_matrix<&QkvProject::wq>(op, f, begin, end, 0, op.q_rows);
  read_matrix<&QkvProject::wk>(op, f, begin, end, op.q_rows, op.kv_rows);
  read_matrix<&QkvProject::wv>(op, f, begin, end, uint64_t{op.q_rows} + op.kv_rows, op.kv_rows);
  f.pass_rows<&QkvProject::rows>();
  f.write_rows<&QkvProject::projected>(RowSet::kActive, begin, end);
}

inline void check(const QkvProject& op, OperandCheck& c) {
  c.pass_rows(op.rows, op.max_rows);
  c.rows_of_pass(op.first_row, op.num_rows, op.max_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  c.dimension("q_rows", op.q_rows, qkv_project_detail::kRowsMultiple);
  c.dimension("kv_rows", op.kv_rows, qkv_project_detail::kRowsMultiple);
  if (!c.ok()) return;
  const uint64_t cols = uint64_t{op.q_rows} + 2 * uint64_t{op.kv_rows};
  c.range("first_unit", op.first_unit, op.num_units, cols / kUnitRows);
  c.weighted_rows(op.weighted, op.squares, op.max_rows, op.hidden, op.square_cols);
  c.weights("wq", op.wq, op.q_rows, op.hidden);
  c.weights("wk", op.wk, op.kv_rows, op.hidden);
  c.weights("wv", op.wv, op.kv_rows, op.hidden);
  c.activation("projected", op.projected, DType::kF32, op.max_rows, cols);
}

}  // namespace serval
