// Numbering of the outputs of attention's input projections, and code that instructions computing queries,
// keys and values share.
//
// Units of 8 output rows are counted KV group by KV group, so that a range of units touches few heads:
// group g = the query heads g × (q_heads / kv_heads) …, then K head g, then V head g. Within a Q or K head,
// unit j is the RoPE pairs 4j … 4j + 3: channels 4j + i and 4j + i + head_dim / 2. Within a V head it is
// channels 8j … 8j + 7.
#pragma once

#include <algorithm>
#include <cstdint>

#include "instructions/common/check.h"
#include "instructions/common/new_tokens.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

enum class QkvPart : uint8_t { kQ, kK, kV };

// A unit of 8 rows: its projection, its head, and its index in the head.
struct QkvUnit {
  QkvPart part;
  uint32_t head;
  uint32_t index;
};

template <class Op>
constexpr uint32_t qkv_units_per_group(const Op& op) {
  return (op.q_heads / op.kv_heads + 2) * (op.head_dim / kUnitRows);
}
// Units of all groups.
template <class Op>
constexpr uint32_t qkv_units(const Op& op) {
  return (op.q_heads + 2 * op.kv_heads) * (op.head_dim / kUnitRows);
}

template <class Op>
constexpr QkvUnit qkv_unit(const Op& op, uint32_t unit) {
  const uint32_t units_per_head = op.head_dim / kUnitRows;
  const uint32_t group_heads = op.q_heads / op.kv_heads;
  const uint32_t group = unit / qkv_units_per_group(op);
  const uint32_t in_group = unit % qkv_units_per_group(op);
  const uint32_t head = in_group / units_per_head;
  const uint32_t index = in_group % units_per_head;
  if (head < group_heads) return {QkvPart::kQ, group * group_heads + head, index};
  return {head == group_heads ? QkvPart::kK : QkvPart::kV, group, index};
}

// For an instruction with the weights of the three projections. Images of Q and K have their rows in the
// order of the units (RowOrder::kRotaryPairs).
template <class Op>
requires requires(const Op& op) {
  op.wq, op.wk, op.wv, op.head_dim;
}
constexpr WeightUnit weight_unit(const Op& op, uint32_t unit) {
  const QkvUnit u = qkv_unit(op, unit);
  const uint32_t units_of_head = op.head_dim / kUnitRows;
  // The heads of Q in a group adjoin; K and V have one head in a group.
  const uint32_t group_heads = u.part == QkvPart::kQ ? op.q_heads / op.kv_heads : 1;
  const uint32_t heads_left = group_heads - u.head % group_heads;
  return {static_cast<uint32_t>(u.part), u.head * units_of_head + u.index,
          heads_left * units_of_head - u.index};
}

// A head of 128 channels has 16 units; two heads of 64 may belong to different projections.
template <class Op>
requires requires(const Op& op) {
  op.wq, op.wk, op.wv, op.head_dim;
}
constexpr bool tile_halves_apart(const Op& op) {
  return op.head_dim < 128;
}

// Calls fn(part, begin, end) for the channels of the instance's units, as ranges [begin, end) that are
// numbered through all heads of their projection.
template <class Op, class Fn>
void for_qkv_channels(const Op& op, Fn&& fn) {
  const uint32_t units_per_head = op.head_dim / kUnitRows;
  constexpr uint32_t kPairs = kUnitRows / 2;
  for (uint32_t unit = op.first_unit, last = op.first_unit + op.num_units; unit < last;) {
    const QkvUnit u = qkv_unit(op, unit);
    const uint32_t in_head = std::min(units_per_head - u.index, last - unit);
    const uint64_t base = uint64_t{u.head} * op.head_dim;
    if (u.part == QkvPart::kV) {
      const uint64_t begin = base + uint64_t{u.index} * kUnitRows;
      fn(u.part, begin, begin + uint64_t{in_head} * kUnitRows);
    } else {
      const uint64_t low = base + uint64_t{u.index} * kPairs, high = low + op.head_dim / 2;
      fn(u.part, low, low + uint64_t{in_head} * kPairs);
      fn(u.part, high, high + uint64_t{in_head} * kPairs);
    }
    unit += in_head;
  }
}

template <class Op>
constexpr bool has_biases(const Op& op) {
  return op.q_bias != op.k_bias;  // check_qkv_outputs() checks the third
}

// Footprint of an instruction that computes the outputs, without its products.
template <class Op>
void touch_qkv_outputs(const Op& op, const StateView* state, FootprintBuilder<Op>& f) {
  f.template read<&Op::rope>({0, op.max_context, 0, op.head_dim});
  f.template pass_rows<&Op::rows>();
  f.template read<&Op::block_table>({0, op.max_sequences, 0, blocks_for_tokens(op.max_context)});
  if (has_biases(op)) {
    f.template read<&Op::q_bias>({0, 1, 0, uint64_t{op.q_heads} * op.head_dim});
    f.template read<&Op::k_bias>({0, 1, 0, uint64_t{op.kv_heads} * op.head_dim});
    f.template read<&Op::v_bias>({0, 1, 0, uint64_t{op.kv_heads} * op.head_dim});
  }
  for_qkv_channels(op, [&](QkvPart part, uint64_t begin, uint64_t end) {
    switch (part) {
      case QkvPart::kQ:
        return f.template write_rows<&Op::q>(RowSet::kActive, begin, end);
      case QkvPart::kK:
        return write_new_tokens<&Op::k_cache>(op, state, f, begin, end);
      case QkvPart::kV:
        return write_new_tokens<&Op::v_cache>(op, state, f, begin, end);
    }
  });
}

// Footprint of the weights of the instance's units, columns [begin_col, end_col).
template <class Op>
void read_qkv_weights(const Op& op, FootprintBuilder<Op>& f, uint64_t begin_col, uint64_t end_col) {
  for_qkv_channels(op, [&](QkvPart part, uint64_t begin, uint64_t end) {
    switch (part) {
      case QkvPart::kQ:
        return f.template read<&Op::wq>({begin, end, begin_col, end_col});
      case QkvPart::kK:
        return f.template read<&Op::wk>({begin, end, begin_col, end_col});
      case QkvPart::kV:
        return f.template read<&Op::wv>({begin, end, begin_col, end_col});
    }
  });
}

// Checks the heads and the instance's units.
template <class Op>
void check_qkv_units(const Op& op, OperandCheck& c) {
  c.require(op.head_dim == 64 || op.head_dim == 128, "head_dim", op.head_dim, "64 or 128");
  c.dimension("kv_heads", op.kv_heads, 1);
  c.dimension("q_heads", op.q_heads, 1);
  if (!c.ok()) return;
  c.require(op.q_heads % op.kv_heads == 0, "q_heads", op.q_heads, "a multiple of kv_heads");
  const uint64_t rows = (uint64_t{op.q_heads} + 2 * uint64_t{op.kv_heads}) * op.head_dim;
  c.range("first_unit", op.first_unit, op.num_units, rows / kUnitRows);
}
template <class Op>
void check_qkv_weights(const Op& op, OperandCheck& c) {
  const uint64_t q_rows = uint64_t{op.q_heads} * op.head_dim, kv_rows = uint64_t{op.kv_heads} * op.head_dim;
  c.weights("wq", op.wq, q_rows, op.hidden);
  c.weights("wk", op.wk, kv_rows, op.hidden);
  c.weights("wv", op.wv, kv_rows, op.hidden);
}
// Either three tensors, or three times the same one, which means no biases.
template <class Op>
void check_qkv_biases(const Op& op, OperandCheck& c, uint64_t q_rows, uint64_t kv_rows) {
  const TensorId q = op.q_bias, k = op.k_bias, v = op.v_bias;
  if (q != k && k != v && q != v) {
    c.tensor("q_bias", q, DType::kBF16, TensorKind::kWeight, 1, q_rows);
    c.tensor("k_bias", k, DType::kBF16, TensorKind::kWeight, 1, kv_rows);
    c.tensor("v_bias", v, DType::kBF16, TensorKind::kWeight, 1, kv_rows);
    return;
  }
  constexpr const char* kNone = "the same tensor as the other two (which means no biases)";
  c.require(k != v || q == k, "q_bias", q.index, kNone);
  c.require(q != v || k == q, "k_bias", k.index, kNone);
  c.require(q != k || v == q, "v_bias", v.index, kNone);
  c.require(c.tensor_rows(q) > 0, "q_bias", q.index, "a tensor of the program");
}
// Checks the table of angles, and the destinations of queries, keys and values.
template <class Op>
void check_rotated_heads(const Op& op, OperandCheck& c) {
  const uint64_t q_rows = uint64_t{op.q_heads} * op.head_dim, kv_rows = uint64_t{op.kv_heads} * op.head_dim;
  const uint64_t kv_cols = uint64_t{op.kv_blocks} * kKvBlockTokens;
  c.tensor("rope", op.rope, DType::kF32, TensorKind::kConstant, op.max_context, op.head_dim);
  c.block_table(op.block_table, op.max_sequences, op.max_context);
  c.activation("q", op.q, DType::kBF16, op.max_rows, q_rows);
  c.require(kv_cols >= op.max_rows, "kv_blocks", op.kv_blocks, "room for a token of each row");
  c.tensor("k_cache", op.k_cache, DType::kBF16, TensorKind::kKvCache, kv_rows, kv_cols);
  c.tensor("v_cache", op.v_cache, DType::kBF16, TensorKind::kKvCache, kv_rows, kv_cols);
}
// Checks the operands of touch_qkv_outputs().
template <class Op>
void check_qkv_outputs(const Op& op, OperandCheck& c) {
  c.limit("max_context", op.max_context, &StateLimits::max_context);
  c.limit("kv_blocks", op.kv_blocks, &StateLimits::kv_blocks);
  if (!c.ok()) return;
  check_qkv_biases(op, c, uint64_t{op.q_heads} * op.head_dim, uint64_t{op.kv_heads} * op.head_dim);
  check_rotated_heads(op, c);
}

}  // namespace serval
