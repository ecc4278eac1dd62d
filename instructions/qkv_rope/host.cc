#include "instructions/common/host_op.h"
#include "instructions/common/matvec.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/qkv_rope/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<int32_t> blocks;  // KV block that each row's K and V go to
  std::vector<float> x;         // [rows, hidden], weighted
  std::vector<float> scales;    // [rows]
  std::vector<float> y;         // [rows, num_units, 8]: each unit's outputs, RoPE applied to Q and K
};

// Weight row and output channel, within the head, of output i of a unit.
constexpr uint32_t channel_of(const QkvRope& op, const QkvUnit& u, uint32_t i) {
  constexpr uint32_t kPairs = kUnitRows / 2;
  if (u.part == QkvPart::kV) return u.index * kUnitRows + i;
  return u.index * kPairs + i % kPairs + (i < kPairs ? 0 : op.head_dim / 2);
}

void load(const QkvRope& op, const HostMemory& m, Local& l) {
  select_rows(op, m, RowSet::kActive, l.rows);
  load_weighted_rows(m, op, l.rows, l.x, l.scales);
  blocks_of_rows(op, m, l.rows, l.blocks);
}

// Rotates the pairs (i, i + 4) of a unit's outputs by the angle of the row's position.
void rotate(const QkvRope& op, const HostMemory& m, const QkvUnit& u, uint32_t position, float* out) {
  constexpr uint32_t kPairs = kUnitRows / 2;
  const float* cosines = m.data<const float>(op.rope) + size_t{position} * op.head_dim;
  const float* sines = cosines + op.head_dim / 2;
  for (uint32_t i = 0; i < kPairs; ++i) {
    const float c = cosines[u.index * kPairs + i], s = sines[u.index * kPairs + i];
    const float a = out[i], b = out[i + kPairs];
    out[i] = a * c - b * s;
    out[i + kPairs] = b * c + a * s;
  }
}

void add_biases(const QkvRope& op, const HostMemory& m, Local& l) {
  if (!has_biases(op)) return;
  const size_t row_stride = size_t{op.num_units} * kUnitRows;
  for (uint32_t n = 0; n < op.num_units; ++n) {
    const QkvUnit u = qkv_unit(op, op.first_unit + n);
    const TensorId biases = u.part == QkvPart::kQ ? op.q_bias : u.part == QkvPart::kK ? op.k_bias : op.v_bias;
    const uint16_t* head = m.data<const uint16_t>(biases) + size_t{u.head} * op.head_dim;
    for (size_t r = 0; r < l.rows.size(); ++r) {
      float* out = l.y.data() + r * row_stride + size_t{n} * kUnitRows;
      for (uint32_t i = 0; i < kUnitRows; ++i) out[i] += bf16_to_float(head[channel_of(op, u, i)]);
    }
  }
}

void rotate_units(const QkvRope& op, const HostMemory& m, Local& l) {
  const size_t row_stride = size_t{op.num_units} * kUnitRows;
  for (uint32_t n = 0; n < op.num_units; ++n) {
    const QkvUnit u = qkv_unit(op, op.first_unit + n);
    if (u.part == QkvPart::kV) continue;
    float* out = l.y.data() + size_t{n} * kUnitRows;
    for (size_t r = 0; r < l.rows.size(); ++r) rotate(op, m, u, l.rows[r].row.position, out + r * row_stride);
  }
}

void compute(const QkvRope& op, const HostMemory& m, Local& l) {
  l.y.resize(l.rows.size() * op.num_units * kUnitRows);
  const size_t row_stride = size_t{op.num_units} * kUnitRows;
  for (uint32_t n = 0; n < op.num_units; ++n) {
    const QkvUnit u = qkv_unit(op, op.first_unit + n);
    const TensorId weights = u.part == QkvPart::kQ ? op.wq : u.part == QkvPart::kK ? op.wk : op.wv;
    const uint16_t* head = m.data<const uint16_t>(weights) + size_t{u.head} * op.head_dim * op.hidden;
    float* out = l.y.data() + size_t{n} * kUnitRows;
    // Of Q and K, each half of a unit is of neighbouring channels.
    for (uint32_t i = 0; i < kUnitRows; i += kUnitRows / 2) {
      matvec(head + size_t{channel_of(op, u, i)} * op.hidden, kUnitRows / 2, op.hidden, l.x.data(),
             l.rows.size(), out + i, row_stride);
    }
  }
  scale_rows(l.scales, l.y);
  add_biases(op, m, l);
  rotate_units(op, m, l);
}

void store(const QkvRope& op, const HostMemory& m, Local& l) {
  const size_t row_stride = size_t{op.num_units} * kUnitRows;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const uint32_t token = l.rows[r].row.position % kKvBlockTokens;
    for (uint32_t n = 0; n < op.num_units; ++n) {
      const QkvUnit u = qkv_unit(op, op.first_unit + n);
      uint16_t* to =
          u.part == QkvPart::kQ
              ? m.data<uint16_t>(op.q) + (size_t{l.rows[r].index} * op.q_heads + u.head) * op.head_dim
              : m.data<uint16_t>(u.part == QkvPart::kK ? op.k_cache : op.v_cache) +
                    kv_offset(static_cast<uint64_t>(l.blocks[r]), u.head, token, op.kv_heads, op.head_dim);
      const float* from = l.y.data() + r * row_stride + size_t{n} * kUnitRows;
      for (uint32_t i = 0; i < kUnitRows; ++i) to[channel_of(op, u, i)] = float_to_bf16(from[i]);
    }
  }
}

}  // namespace

SERVAL_HOST_OP(QkvRope)

}  // namespace serval
