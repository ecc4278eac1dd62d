// Attention's inputs: x = rms_norm(residual), then rows of [Wq; Wk; Wv] x, RoPE on Q and K; K and V are
// appended to the cache. Units are numbered as in instructions/common/qkv_heads.h.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/qkv_heads.h"
#include "instructions/common/residual.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

struct QkvRope {
  TensorId weighted;
  TensorId squares;
  TensorId wq;
  TensorId wk;
  TensorId wv;
  TensorId rope;
  TensorId rows;
  TensorId block_table;
  TensorId q;
  TensorId k_cache;
  TensorId v_cache;
  TensorId q_bias = {};  // no biases if all three are the same tensor
  TensorId k_bias = {};
  TensorId v_bias = {};
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  float epsilon;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr std::array kWeights = {&QkvRope::wq, &QkvRope::wk, &QkvRope::wv};
  static constexpr auto kInput = &QkvRope::weighted;
  static constexpr auto kInputSquares = &QkvRope::squares;

  static constexpr std::array kWindows = {&QkvRope::first_unit, &QkvRope::num_units, &QkvRope::first_row,
                                          &QkvRope::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&QkvRope::weighted, "weighted",
      "in [max_rows, hidden] bf16 or f16, or e4m3 with scales: residual * norm");
    v(&QkvRope::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&QkvRope::wq, "wq", "in [q_heads * head_dim, hidden] bf16 or codes");
    v(&QkvRope::wk, "wk", "in [kv_heads * head_dim, hidden] bf16 or codes");
    v(&QkvRope::wv, "wv", "in [kv_heads * head_dim, hidden] bf16 or codes");
    v(&QkvRope::rope, "rope", "in [max_context, head_dim] f32: cosines, then sines");
    v(&QkvRope::rows, "rows", "in: the pass's rows");
    v(&QkvRope::block_table, "block_table", "in [max_sequences, blocks of a sequence] i32");
    v(&QkvRope::q, "q", "out [max_rows, q_heads * head_dim] bf16");
    v(&QkvRope::k_cache, "k_cache", "out [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&QkvRope::v_cache, "v_cache", "out [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&QkvRope::q_bias, "q_bias",
      "in [1, q_heads * head_dim] bf16, added before RoPE; none where all three are one");
    v(&QkvRope::k_bias, "k_bias",
      "in [1, kv_heads * head_dim] bf16, added before RoPE; none where all three are one");
    v(&QkvRope::v_bias, "v_bias",
      "in [1, kv_heads * head_dim] bf16, added before RoPE; none where all three are one");
    v(&QkvRope::first_unit, "first_unit", "units of 8 rows");
    v(&QkvRope::num_units, "num_units", "units of 8 rows");
    v(&QkvRope::hidden, "hidden", "columns");
    v(&QkvRope::epsilon, "epsilon", "of the RMS norm");
    v(&QkvRope::first_row, "first_row", "rows of the pass");
    v(&QkvRope::num_rows, "num_rows", "rows of the pass");
  }
};

constexpr Product product(const QkvRope& op, const ProgramShape& shape) {
  return whole_product(qkv_units(shape.heads), op.hidden);
}

constexpr WeightUnit weight_unit(const QkvRope&, const ProgramShape& shape, uint32_t unit) {
  return weights_of_qkv_unit(shape.heads, unit);
}

constexpr bool tile_halves_apart(const QkvRope&, const ProgramShape& shape) {
  return qkv_halves_apart(shape.heads);
}

inline void footprint(const QkvRope& op, const StateView* state, FootprintBuilder<QkvRope>& f) {
  f.read_rows<&QkvRope::weighted>(RowSet::kActive, 0, op.hidden);
  f.read_rows<&QkvRope::squares>(RowSet::kActive, 0, op.hidden / square_cols(f.shape().order));
  read_qkv_weights(op, f, 0, op.hidden);
  touch_qkv_outputs(op, state, f);
}

inline void check(const QkvRope& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  check_qkv_units(op, c);
  if (!c.ok()) return;
  c.weighted_input(op.weighted, op.squares, op.hidden);
  check_qkv_weights(op, c);
  check_qkv_outputs(op, c);
}

}  // namespace serval
