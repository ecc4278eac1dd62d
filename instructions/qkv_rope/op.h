// Attention's inputs: x = rms_norm(residual), then rows of [Wq; Wk; Wv] x, RoPE on Q and K, K and V appended
// to the cache.
//
// Units of 8 output rows are counted KV group by KV group, so that a range of units touches few heads:
// group g = the query heads g × (q_heads / kv_heads) …, then K head g, then V head g. Within a Q or K head,
// unit j is the RoPE pairs 4j … 4j + 3: channels 4j + i and 4j + i + head_dim / 2. Within a V head it is
// channels 8j … 8j + 7.
#pragma once

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/new_tokens.h"
#include "instructions/common/residual.h"
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
  TensorId q_bias = {};  // all three the same tensor, whichever: there are no biases
  TensorId k_bias = {};
  TensorId v_bias = {};
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  uint32_t head_dim;
  uint32_t q_heads;
  uint32_t kv_heads;
  uint32_t max_context;
  uint32_t kv_blocks;
  float epsilon;
  uint32_t max_rows;
  uint32_t max_sequences;
  uint32_t first_row = 0;
  uint32_t num_rows;
  uint32_t square_cols = kSquareColsOfMatvec;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&QkvRope::weighted, "weighted", "in [max_rows, hidden] bf16: residual * norm");
    v(&QkvRope::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&QkvRope::wq, "wq", "in [q_heads * head_dim, hidden] bf16");
    v(&QkvRope::wk, "wk", "in [kv_heads * head_dim, hidden] bf16");
    v(&QkvRope::wv, "wv", "in [kv_heads * head_dim, hidden] bf16");
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
    v(&QkvRope::head_dim, "head_dim", "channels");
    v(&QkvRope::q_heads, "q_heads", "heads");
    v(&QkvRope::kv_heads, "kv_heads", "heads");
    v(&QkvRope::max_context, "max_context", "tokens");
    v(&QkvRope::kv_blocks, "kv_blocks", "blocks of 64 tokens");
    v(&QkvRope::epsilon, "epsilon", "of the RMS norm");
    v(&QkvRope::max_rows, "max_rows", "rows of a pass");
    v(&QkvRope::max_sequences, "max_sequences", "sequences of a state: its slots");
    v(&QkvRope::first_row, "first_row", "rows of the pass");
    v(&QkvRope::num_rows, "num_rows", "rows of the pass");
    v(&QkvRope::square_cols, "square_cols", "columns whose squares are added up together: 8 or 64");
  }
};

constexpr bool has_biases(const QkvRope& op) {
  return op.q_bias != op.k_bias;  // check() sees to the third
}

enum class QkvPart : uint8_t { kQ, kK, kV };

// What one unit of 8 rows is: which projection, which head of it, which unit within the head.
struct QkvUnit {
  QkvPart part;
  uint32_t head;
  uint32_t index;
};

constexpr uint32_t qkv_units_per_group(const QkvRope& op) {
  return (op.q_heads / op.kv_heads + 2) * (op.head_dim / kUnitRows);
}

constexpr QkvUnit qkv_unit(const QkvRope& op, uint32_t unit) {
  const uint32_t units_per_head = op.head_dim / kUnitRows;
  const uint32_t group_heads = op.q_heads / op.kv_heads;
  const uint32_t group = unit / qkv_units_per_group(op);
  const uint32_t in_group = unit % qkv_units_per_group(op);
  const uint32_t head = in_group / units_per_head;
  const uint32_t index = in_group % units_per_head;
  if (head < group_heads) return {QkvPart::kQ, group * group_heads + head, index};
  return {head == group_heads ? QkvPart::kK : QkvPart::kV, group, index};
}

inline void footprint(const QkvRope& op, const StateView* state, FootprintBuilder<QkvRope>& f) {
  f.read_rows<&QkvRope::weighted>(RowSet::kActive, 0, op.hidden);
  f.read_rows<&QkvRope::squares>(RowSet::kActive, 0, op.hidden / op.square_cols);
  f.read<&QkvRope::rope>({0, op.max_context, 0, op.head_dim});
  f.pass_rows<&QkvRope::rows>();
  f.read<&QkvRope::block_table>({0, op.max_sequences, 0, blocks_for_tokens(op.max_context)});
  if (has_biases(op)) {
    f.read<&QkvRope::q_bias>({0, 1, 0, uint64_t{op.q_heads} * op.head_dim});
    f.read<&QkvRope::k_bias>({0, 1, 0, uint64_t{op.kv_heads} * op.head_dim});
    f.read<&QkvRope::v_bias>({0, 1, 0, uint64_t{op.kv_heads} * op.head_dim});
  }
  const uint32_t units_per_head = op.head_dim / kUnitRows;
  const uint32_t pairs = kUnitRows / 2;
  for (uint32_t unit = op.first_unit, last = op.first_unit + op.num_units; unit < last;) {
    const QkvUnit u = qkv_unit(op, unit);
    const uint32_t in_head = units_per_head - u.index < last - unit ? units_per_head - u.index : last - unit;
    const uint64_t base = uint64_t{u.head} * op.head_dim;
    const uint64_t low = base + uint64_t{u.index} * pairs, low_end = low + uint64_t{in_head} * pairs;
    const uint64_t high = low + op.head_dim / 2, high_end = low_end + op.head_dim / 2;
    const uint64_t v_begin = base + uint64_t{u.index} * kUnitRows,
                   v_end = v_begin + uint64_t{in_head} * kUnitRows;
    switch (u.part) {
      case QkvPart::kQ:
        f.read<&QkvRope::wq>({low, low_end, 0, op.hidden});
        f.read<&QkvRope::wq>({high, high_end, 0, op.hidden});
        f.write_rows<&QkvRope::q>(RowSet::kActive, low, low_end);
        f.write_rows<&QkvRope::q>(RowSet::kActive, high, high_end);
        break;
      case QkvPart::kK:
        f.read<&QkvRope::wk>({low, low_end, 0, op.hidden});
        f.read<&QkvRope::wk>({high, high_end, 0, op.hidden});
        write_new_tokens<&QkvRope::k_cache>(op, state, f, low, low_end);
        write_new_tokens<&QkvRope::k_cache>(op, state, f, high, high_end);
        break;
      case QkvPart::kV:
        f.read<&QkvRope::wv>({v_begin, v_end, 0, op.hidden});
        write_new_tokens<&QkvRope::v_cache>(op, state, f, v_begin, v_end);
        break;
    }
    unit += in_head;
  }
}

inline Cost cost(const QkvRope& op, const CostView& c) {
  return cost_of_product(
      op, c, {.weights = op.wq, .units = op.num_units, .input = op.weighted, .num_cols = op.hidden});
}

inline PageNeed pages(const QkvRope&) {
  return {.pinned = 0, .streaming = 1};
}  // a page of weights at a time

namespace qkv_detail {

// Three of their own, or three times the same tensor.
inline void check_biases(const QkvRope& op, OperandCheck& c, uint64_t q_rows, uint64_t kv_rows) {
  const TensorId q = op.q_bias, k = op.k_bias, v = op.v_bias;
  if (q != k && k != v && q != v) {
    c.tensor("q_bias", q, DType::kBF16, TensorKind::kWeight, 1, q_rows);
    c.tensor("k_bias", k, DType::kBF16, TensorKind::kWeight, 1, kv_rows);
    c.tensor("v_bias", v, DType::kBF16, TensorKind::kWeight, 1, kv_rows);
    return;
  }
  constexpr const char* kNone = "the same tensor as the other two, for no biases";
  c.require(k != v || q == k, "q_bias", q.index, kNone);
  c.require(q != v || k == q, "k_bias", k.index, kNone);
  c.require(q != k || v == q, "v_bias", v.index, kNone);
  c.require(c.tensor_rows(q) > 0, "q_bias", q.index, "a tensor of the program");
}

}  // namespace qkv_detail

inline void check(const QkvRope& op, OperandCheck& c) {
  c.pass_rows(op.rows, op.max_rows);
  c.rows_of_pass(op.first_row, op.num_rows, op.max_rows);
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  c.require(op.head_dim == 64 || op.head_dim == 128, "head_dim", op.head_dim, "64 or 128");
  c.dimension("kv_heads", op.kv_heads, 1);
  c.dimension("q_heads", op.q_heads, 1);
  c.limit("max_context", op.max_context, &StateLimits::max_context);
  c.limit("kv_blocks", op.kv_blocks, &StateLimits::kv_blocks);
  if (!c.ok()) return;
  c.require(op.q_heads % op.kv_heads == 0, "q_heads", op.q_heads, "a multiple of kv_heads");
  const uint64_t q_rows = uint64_t{op.q_heads} * op.head_dim;
  const uint64_t kv_rows = uint64_t{op.kv_heads} * op.head_dim;
  const uint64_t kv_cols = uint64_t{op.kv_blocks} * kKvBlockTokens;
  c.range("first_unit", op.first_unit, op.num_units, (q_rows + 2 * kv_rows) / kUnitRows);
  c.weighted_rows(op.weighted, op.squares, op.max_rows, op.hidden, op.square_cols);
  c.tensor("wq", op.wq, DType::kBF16, TensorKind::kWeight, q_rows, op.hidden);
  c.tensor("wk", op.wk, DType::kBF16, TensorKind::kWeight, kv_rows, op.hidden);
  c.tensor("wv", op.wv, DType::kBF16, TensorKind::kWeight, kv_rows, op.hidden);
  qkv_detail::check_biases(op, c, q_rows, kv_rows);
  c.tensor("rope", op.rope, DType::kF32, TensorKind::kConstant, op.max_context, op.head_dim);
  c.block_table(op.block_table, op.max_sequences, op.max_context);
  c.activation("q", op.q, DType::kBF16, op.max_rows, q_rows);
  c.require(kv_cols >= op.max_rows, "kv_blocks", op.kv_blocks, "room for a token of each row");
  c.tensor("k_cache", op.k_cache, DType::kBF16, TensorKind::kKvCache, kv_rows, kv_cols);
  c.tensor("v_cache", op.v_cache, DType::kBF16, TensorKind::kKvCache, kv_rows, kv_cols);
}

}  // namespace serval
