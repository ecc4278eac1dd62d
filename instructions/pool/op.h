// Pools hidden states, which makes embeddings: pooled[slot(r)] = rms_norm(residual[r]) in fp32, or += it
// where the row adds (PassRow::adds), for the rows that want logits, in their order. A sequence's rows are in
// the order of their positions, so the bits of a sum do not depend on how its prompt is divided among passes.
//
// `advance` finds for each of these rows its token, and a log-probability of 0, or NaN if the row's squares
// are not finite, as `sample` says it of logits.
#pragma once

#include <array>
#include <limits>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/residual.h"
#include "vm/layout/units.h"
#include "vm/state/output.h"

namespace serval {

// Records divide the columns among them, and the rows of `sampled`.
struct Pool {
  TensorId residual;
  TensorId squares;
  TensorId norm;
  TensorId rows;
  TensorId sampled;
  TensorId pooled;
  uint32_t record;
  uint32_t records;
  uint32_t hidden;
  float epsilon;

  static constexpr KernelSet kKernels = {.tile_order = false, .ranks = false, .generates = false};

  static constexpr std::array kWindows = {&Pool::record};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Pool::residual, "residual", "in [max_rows, hidden] f32");
    v(&Pool::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&Pool::norm, "norm", "in [1, hidden] bf16");
    v(&Pool::rows, "rows", "in: the pass's rows");
    v(&Pool::sampled, "sampled", "out [max_rows]: the rows' tokens, and whether they are finite");
    v(&Pool::pooled, "pooled", "in and out [max_sequences, hidden] f32");
    v(&Pool::record, "record", "which share of the columns, and of the rows of sampled");
    v(&Pool::records, "records", "shares");
    v(&Pool::hidden, "hidden", "columns");
    v(&Pool::epsilon, "epsilon", "of the RMS norm");
  }
};

// The share of `count` that a record has.
struct PoolShare {
  uint32_t begin, end;
};
constexpr PoolShare pool_share(const Pool& op, uint32_t count) {
  return {static_cast<uint32_t>(uint64_t{count} * op.record / op.records),
          static_cast<uint32_t>(uint64_t{count} * (op.record + 1) / op.records)};
}
// Columns, in whole units.
constexpr PoolShare columns_of(const Pool& op) {
  const PoolShare units = pool_share(op, op.hidden / kUnitRows);
  return {units.begin * kUnitRows, units.end * kUnitRows};
}
// Rows of `sampled`.
constexpr PoolShare rows_of(const Pool& op, const StateLimits& limits) {
  return pool_share(op, logit_rows(limits));
}

// What `advance` finds for a row with this scale of its RMS norm. Squares that are infinite have the scale 0.
constexpr SampledToken pooled_token(int32_t token, float scale) {
  const bool is_finite = scale > 0 && scale <= std::numeric_limits<float>::max();
  return {token, is_finite ? 0 : std::numeric_limits<float>::quiet_NaN()};
}

inline void footprint(const Pool& op, const StateView* state, FootprintBuilder<Pool>& f) {
  const StateLimits& limits = f.shape().limits;
  const PoolShare cols = columns_of(op), own_rows = rows_of(op, limits);
  const RowRange all{0, logit_rows(limits)};
  f.pass_rows<&Pool::rows>();
  f.read<&Pool::norm>({0, 1, cols.begin, cols.end});
  f.read_rows<&Pool::residual>(all, RowSet::kWantLogits, cols.begin, cols.end);
  f.read_rows<&Pool::squares>(all, RowSet::kWantLogits, 0, op.hidden / square_cols(f.shape().order));
  f.write_rows<&Pool::sampled>({own_rows.begin, own_rows.end}, RowSet::kWantLogits, 0, sizeof(SampledToken));
  if (state == nullptr) return f.may_read_write<&Pool::pooled>({0, limits.sequences, cols.begin, cols.end});
  for (const PassRow* row = state->rows; row != state->rows + all.end; ++row) {
    if (!row_wants_logits(*row)) continue;
    const Box box{row->slot, uint64_t{row->slot} + 1, cols.begin, cols.end};
    if (row->adds != 0)
      f.read_write<&Pool::pooled>(box);
    else
      f.write<&Pool::pooled>(box);
  }
}

inline Cost cost(const Pool& op, const CostView& c) {
  const PoolShare cols = columns_of(op);
  const uint64_t values = c.rows(0, logit_rows(c.shape.limits)) * (cols.end - cols.begin);
  return {.cached_bytes = values * c.element_bytes(op.residual), .operations = 3 * values};
}

inline PageNeed pages(const Pool&) {
  return {.pinned = 0, .streaming = 0};
}  // a few values a thread, in registers

inline void check(const Pool& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  c.require(op.records >= 1 && op.records <= op.hidden / kUnitRows, "records", op.records,
            "1 to a unit of 8 columns each");
  if (!c.ok()) return;
  c.require(op.record < op.records, "record", op.record, "less than records");
  c.squares(op.squares, op.hidden);
  c.activation("residual", op.residual, DType::kF32, op.hidden);
  c.tensor("norm", op.norm, DType::kBF16, TensorKind::kWeight, 1, op.hidden);
  c.tensor("sampled", op.sampled, DType::kBytes, TensorKind::kState, c.shape().limits.rows,
           sizeof(SampledToken));
  c.limit("hidden", op.hidden, &StateLimits::pooled_cols);
  c.tensor("pooled", op.pooled, DType::kF32, TensorKind::kState, c.shape().limits.sequences, op.hidden);
}

}  // namespace serval
