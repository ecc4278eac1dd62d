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

constexpr uint32_t qkv_units_per_group(const HeadShape& heads) {
  return (heads.group_heads() + 2) * (heads.head_dim / kUnitRows);
}
// Units of all groups.
constexpr uint32_t qkv_units(const HeadShape& heads) {
  return (heads.q_heads + 2 * heads.kv_heads) * (heads.head_dim / kUnitRows);
}
// Outputs of all units.
constexpr uint32_t qkv_cols(const HeadShape& heads) {
  return qkv_units(heads) * kUnitRows;
}

constexpr QkvUnit qkv_unit(const HeadShape& heads, uint32_t unit) {
  const uint32_t units_per_head = heads.head_dim / kUnitRows;
  const uint32_t group_heads = heads.group_heads();
  const uint32_t group = unit / qkv_units_per_group(heads);
  const uint32_t in_group = unit % qkv_units_per_group(heads);
  const uint32_t head = in_group / units_per_head;
  const uint32_t index = in_group % units_per_head;
  if (head < group_heads) return {QkvPart::kQ, group * group_heads + head, index};
  return {head == group_heads ? QkvPart::kK : QkvPart::kV, group, index};
}

// Weights of a unit, for an instruction with those of the three projections. Images of Q and K have their
// rows in the order of the units (RowOrder::kRotaryPairs).
constexpr WeightUnit weights_of_qkv_unit(const HeadShape& heads, uint32_t unit) {
  const QkvUnit u = qkv_unit(heads, unit);
  const uint32_t units_of_head = heads.head_dim / kUnitRows;
  // The heads of Q in a group adjoin; K and V have one head in a group.
  const uint32_t group_heads = u.part == QkvPart::kQ ? heads.group_heads() : 1;
  const uint32_t heads_left = group_heads - u.head % group_heads;
  return {static_cast<uint32_t>(u.part), u.head * units_of_head + u.index,
          heads_left * units_of_head - u.index};
}

// A head of 128 channels has 16 units; two heads of 64 may belong to different projections.
constexpr bool qkv_halves_apart(const HeadShape& heads) {
  return heads.head_dim < 128;
}

// Calls fn(part, begin, end) for the channels of the instance's units, as ranges [begin, end) that are
// numbered through all heads of their projection.
template <class Op, class Fn>
void for_qkv_channels(const Op& op, const HeadShape& heads, Fn&& fn) {
  const uint32_t units_per_head = heads.head_dim / kUnitRows;
  constexpr uint32_t kPairs = kUnitRows / 2;
  for (uint32_t unit = op.first_unit, last = op.first_unit + op.num_units; unit < last;) {
    const QkvUnit u = qkv_unit(heads, unit);
    const uint32_t in_head = std::min(units_per_head - u.index, last - unit);
    const uint64_t base = uint64_t{u.head} * heads.head_dim;
    if (u.part == QkvPart::kV) {
      const uint64_t begin = base + uint64_t{u.index} * kUnitRows;
      fn(u.part, begin, begin + uint64_t{in_head} * kUnitRows);
    } else {
      const uint64_t low = base + uint64_t{u.index} * kPairs, high = low + heads.head_dim / 2;
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
  const HeadShape& heads = f.shape().heads;
  const StateLimits& limits = f.shape().limits;
  f.template read<&Op::rope>({0, limits.max_context, 0, heads.head_dim});
  f.template pass_rows<&Op::rows>();
  f.template read<&Op::block_table>({0, limits.sequences, 0, blocks_for_tokens(limits.max_context)});
  if (has_biases(op)) {
    f.template read<&Op::q_bias>({0, 1, 0, heads.q_cols()});
    f.template read<&Op::k_bias>({0, 1, 0, heads.kv_cols()});
    f.template read<&Op::v_bias>({0, 1, 0, heads.kv_cols()});
  }
  for_qkv_channels(op, heads, [&](QkvPart part, uint64_t begin, uint64_t end) {
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
  for_qkv_channels(op, f.shape().heads, [&](QkvPart part, uint64_t begin, uint64_t end) {
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

// Checks that the program has heads, and the instance's units.
template <class Op>
void check_qkv_units(const Op& op, OperandCheck& c) {
  c.heads();
  c.range("first_unit", op.first_unit, op.num_units, qkv_units(c.shape().heads));
}
template <class Op>
void check_qkv_weights(const Op& op, OperandCheck& c) {
  const HeadShape& heads = c.shape().heads;
  c.weights("wq", op.wq, heads.q_cols(), op.hidden);
  c.weights("wk", op.wk, heads.kv_cols(), op.hidden);
  c.weights("wv", op.wv, heads.kv_cols(), op.hidden);
}
// Either three tensors, or three times the same one, which means no biases.
template <class Op>
void check_qkv_biases(const Op& op, OperandCheck& c) {
  const uint64_t q_cols = c.shape().heads.q_cols(), kv_cols = c.shape().heads.kv_cols();
  const TensorId q = op.q_bias, k = op.k_bias, v = op.v_bias;
  if (q != k && k != v && q != v) {
    c.tensor("q_bias", q, DType::kBF16, TensorKind::kWeight, 1, q_cols);
    c.tensor("k_bias", k, DType::kBF16, TensorKind::kWeight, 1, kv_cols);
    c.tensor("v_bias", v, DType::kBF16, TensorKind::kWeight, 1, kv_cols);
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
  const HeadShape& heads = c.shape().heads;
  const StateLimits& limits = c.shape().limits;
  c.tensor("rope", op.rope, DType::kF32, TensorKind::kConstant, limits.max_context, heads.head_dim);
  c.block_table(op.block_table);
  c.activation("q", op.q, DType::kBF16, heads.q_cols());
  c.require(uint64_t{limits.kv_blocks} * kKvBlockTokens >= limits.rows, "kv_blocks", limits.kv_blocks,
            "room for a token of each row");
  c.kv_cache("k_cache", op.k_cache);
  c.kv_cache("v_cache", op.v_cache);
}
// Checks the operands of touch_qkv_outputs().
template <class Op>
void check_qkv_outputs(const Op& op, OperandCheck& c) {
  check_qkv_biases(op, c);
  check_rotated_heads(op, c);
}

}  // namespace serval
