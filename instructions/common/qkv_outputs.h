// Host code that finishes the sums of attention's projections: biases, RoPE, and stores.
#pragma once

#include <vector>

#include "instructions/common/multiply_weights.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/qkv_heads.h"
#include "vm/base/bf16.h"
#include "vm/host/memory.h"
#include "vm/layout/kv_cache.h"

namespace serval {

// Outputs of an instance's rows.
struct QkvOutputs {
  std::vector<SelectedRow> rows;
  std::vector<int32_t> blocks;  // KV block of each row's K and V
  std::vector<float> scales;    // [rows]
  std::vector<float> y;         // [rows, num_units, 8]: each unit's outputs
};

// Output channel in the head, which is also the weight row, of output i of a unit.
constexpr uint32_t channel_of(const HeadShape& heads, const QkvUnit& u, uint32_t i) {
  constexpr uint32_t kPairs = kUnitRows / 2;
  if (u.part == QkvPart::kV) return u.index * kUnitRows + i;
  return u.index * kPairs + i % kPairs + (i < kPairs ? 0 : heads.head_dim / 2);
}

// Calls fn(unit, row, outputs) for each of the instance's units and each row, unit by unit.
template <class Op, class Fn>
void for_outputs(const Op& op, const HeadShape& heads, QkvOutputs& l, Fn&& fn) {
  for (uint32_t n = 0; n < op.num_units; ++n) {
    const QkvUnit u = qkv_unit(heads, op.first_unit + n);
    for (size_t r = 0; r < l.rows.size(); ++r) fn(u, r, l.y.data() + (r * op.num_units + n) * kUnitRows);
  }
}

template <class Op>
void add_biases(const Op& op, const HostMemory& m, QkvOutputs& l) {
  if (!has_biases(op)) return;
  const HeadShape& heads = m.shape().heads;
  for_outputs(op, heads, l, [&](const QkvUnit& u, size_t, float* out) {
    const TensorId biases = u.part == QkvPart::kQ ? op.q_bias : u.part == QkvPart::kK ? op.k_bias : op.v_bias;
    const uint16_t* head = m.data<const uint16_t>(biases) + size_t{u.head} * heads.head_dim;
    for (uint32_t i = 0; i < kUnitRows; ++i) out[i] += bf16_to_float(head[channel_of(heads, u, i)]);
  });
}

// Rotates the pairs (i, i + 4) of the outputs of Q and K by the angles of the rows' positions.
template <class Op>
void rotate_pairs(const Op& op, const HostMemory& m, QkvOutputs& l) {
  const HeadShape& heads = m.shape().heads;
  constexpr uint32_t kPairs = kUnitRows / 2;
  for_outputs(op, heads, l, [&](const QkvUnit& u, size_t r, float* out) {
    if (u.part == QkvPart::kV) return;
    const float* cosines = m.data<const float>(op.rope) + size_t{l.rows[r].row.position} * heads.head_dim;
    const float* sines = cosines + heads.head_dim / 2;
    for (uint32_t i = 0; i < kPairs; ++i) {
      const float c = cosines[u.index * kPairs + i], s = sines[u.index * kPairs + i];
      const float a = out[i], b = out[i + kPairs];
      out[i] = a * c - b * s;
      out[i + kPairs] = b * c + a * s;
    }
  });
}

// Applies scales, biases and rotations to the sums.
template <class Op>
void finish_outputs(const Op& op, const HostMemory& m, QkvOutputs& l) {
  scale_rows(l.scales, l.y);
  add_biases(op, m, l);
  rotate_pairs(op, m, l);
}

template <class Op>
void store_outputs(const Op& op, const HostMemory& m, QkvOutputs& l) {
  const HeadShape& heads = m.shape().heads;
  for_outputs(op, heads, l, [&](const QkvUnit& u, size_t r, const float* from) {
    const uint32_t token = l.rows[r].row.position % kKvBlockTokens;
    uint16_t* to =
        u.part == QkvPart::kQ
            ? m.data<uint16_t>(op.q) + (size_t{l.rows[r].index} * heads.q_heads + u.head) * heads.head_dim
            : m.data<uint16_t>(u.part == QkvPart::kK ? op.k_cache : op.v_cache) +
                  kv_offset(static_cast<uint64_t>(l.blocks[r]), u.head, token, heads.kv_heads,
                            heads.head_dim);
    for (uint32_t i = 0; i < kUnitRows; ++i) to[channel_of(heads, u, i)] = float_to_bf16(from[i]);
  });
}

// Sums over columns [begin, begin + count) of the rows in x, [rows, count] in the layout of matvec().
template <class Op>
void multiply_units(const Op& op, const HostMemory& m, const std::vector<float>& x, uint32_t begin,
                    uint32_t count, QkvOutputs& l) {
  const HeadShape& heads = m.shape().heads;
  l.y.resize(l.rows.size() * op.num_units * kUnitRows);
  const size_t row_stride = size_t{op.num_units} * kUnitRows;
  for (uint32_t n = 0; n < op.num_units; ++n) {
    const QkvUnit u = qkv_unit(heads, op.first_unit + n);
    const TensorId weights = u.part == QkvPart::kQ ? op.wq : u.part == QkvPart::kK ? op.wk : op.wv;
    const size_t head = size_t{u.head} * heads.head_dim;
    // In Q and K, each half of a unit has neighbouring channels.
    for (uint32_t i = 0; i < kUnitRows; i += kUnitRows / 2) {
      multiply_weights(m, {weights, head + channel_of(heads, u, i), kUnitRows / 2, op.hidden, begin, count},
                       x.data(), l.rows.size(), l.y.data() + size_t{n} * kUnitRows + i, row_stride);
    }
  }
}

}  // namespace serval
