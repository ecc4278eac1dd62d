// Attention's inputs from project_part's sums over parts of the columns: x = ((part 0 + part 1) + …) times
// the row's RMS scale; biases; RoPE on Q and K; K and V are appended to the cache. Units, outputs and the
// remaining steps are those of qkv_rope.
#pragma once

#include <array>

#include "instructions/common/kernel_set.h"
#include "instructions/project_part/op.h"

namespace serval {

struct RopeParts {
  TensorId sums;
  TensorId squares;
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
  uint32_t parts;
  float epsilon;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr KernelSet kKernels = {.vectors = false, .tile_order = false, .one_device = false};

  static constexpr std::array kWindows = {&RopeParts::first_unit, &RopeParts::num_units,
                                          &RopeParts::first_row, &RopeParts::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&RopeParts::sums, "sums",
      "in [max_rows, parts * (q_heads + 2 * kv_heads) * head_dim] f32: part by part");
    v(&RopeParts::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&RopeParts::rope, "rope", "in [max_context, head_dim] f32: cosines, then sines");
    v(&RopeParts::rows, "rows", "in: the pass's rows");
    v(&RopeParts::block_table, "block_table", "in [max_sequences, blocks of a sequence] i32");
    v(&RopeParts::q, "q", "out [max_rows, q_heads * head_dim] bf16");
    v(&RopeParts::k_cache, "k_cache", "out [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&RopeParts::v_cache, "v_cache", "out [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&RopeParts::q_bias, "q_bias",
      "in [1, q_heads * head_dim] bf16, added before RoPE; none where all three are one");
    v(&RopeParts::k_bias, "k_bias",
      "in [1, kv_heads * head_dim] bf16, added before RoPE; none where all three are one");
    v(&RopeParts::v_bias, "v_bias",
      "in [1, kv_heads * head_dim] bf16, added before RoPE; none where all three are one");
    v(&RopeParts::first_unit, "first_unit", "units of 8 rows");
    v(&RopeParts::num_units, "num_units", "units of 8 rows");
    v(&RopeParts::hidden, "hidden", "columns");
    v(&RopeParts::parts, "parts", "parts that the columns are cut into");
    v(&RopeParts::epsilon, "epsilon", "of the RMS norm");
    v(&RopeParts::first_row, "first_row", "rows of the pass");
    v(&RopeParts::num_rows, "num_rows", "rows of the pass");
  }
};

inline void footprint(const RopeParts& op, const StateView* state, FootprintBuilder<RopeParts>& f) {
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = begin + uint64_t{op.num_units} * kUnitRows;
  for (uint64_t part = 0; part < op.parts; ++part) {
    const uint64_t first = part * qkv_cols(f.shape().heads);
    f.read_rows<&RopeParts::sums>(RowSet::kActive, first + begin, first + end);
  }
  f.read_rows<&RopeParts::squares>(RowSet::kActive, 0, op.hidden / square_cols(f.shape().order));
  touch_qkv_outputs(op, state, f);
}

inline Cost cost(const RopeParts& op, const CostView& c) {
  const uint64_t values = c.rows(op.first_row, op.num_rows) * op.num_units * kUnitRows;
  return {.cached_bytes = values * (op.parts * c.element_bytes(op.sums) + c.element_bytes(op.q)),
          .operations = (op.parts + 4) * values};
}

inline PageNeed pages(const RopeParts&) {
  return {.pinned = 0, .streaming = 0};
}  // a few values a thread, in registers

inline void check(const RopeParts& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  check_qkv_units(op, c);
  if (!c.ok()) return;
  check_qkv_parts(op, c);
  c.squares(op.squares, op.hidden);
  check_qkv_outputs(op, c);
}

}  // namespace serval
