#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/qk_norm_rope/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<int32_t> blocks;  // KV block of each row's K and V
  std::vector<float> y;         // [rows, num_heads, head_dim]
};

void load(const QkNormRope& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  select_rows(op, m, RowSet::kActive, l.rows);
  blocks_of_rows(op, m, l.rows, l.blocks);
  const size_t cols = size_t{projected_heads(heads)} * heads.head_dim;
  const size_t first = size_t{op.first_head} * heads.head_dim, count = size_t{op.num_heads} * heads.head_dim;
  l.y.clear();
  for (const SelectedRow& r : l.rows) {
    const float* from = m.data<const float>(op.projected) + r.index * cols + first;
    l.y.insert(l.y.end(), from, from + count);
  }
}

void normalise(const QkNormRope& op, const HostMemory& m, HeadPart part, float* head) {
  const HeadShape& heads = m.shape().heads;
  const auto* norm = m.data<const uint16_t>(part == HeadPart::kQ ? op.q_norm : op.k_norm);
  const float scale = head_scale(head, heads.head_dim, op.epsilon);
  for (uint32_t i = 0; i < heads.head_dim; ++i) head[i] = head[i] * scale * bf16_to_float(norm[i]);
}

void rotate(const QkNormRope& op, const HostMemory& m, uint32_t position, float* head) {
  const HeadShape& heads = m.shape().heads;
  const uint32_t pairs = heads.head_dim / 2;
  const float* cosines = m.data<const float>(op.rope) + size_t{position} * heads.head_dim;
  for (uint32_t i = 0; i < pairs; ++i) {
    const float c = cosines[i], s = cosines[pairs + i];
    const float a = head[i], b = head[pairs + i];
    head[i] = a * c - b * s;
    head[pairs + i] = b * c + a * s;
  }
}

void compute(const QkNormRope& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  float* head = l.y.data();
  for (const SelectedRow& r : l.rows) {
    for (uint32_t n = 0; n < op.num_heads; ++n, head += heads.head_dim) {
      const HeadPart part = projected_head(heads, op.first_head + n).part;
      if (part == HeadPart::kV) continue;
      normalise(op, m, part, head);
      rotate(op, m, r.row.position, head);
    }
  }
}

// Destination of a row's head.
uint16_t* place(const QkNormRope& op, const HostMemory& m, const ProjectedHead& head, const SelectedRow& row,
                int32_t block) {
  const HeadShape& heads = m.shape().heads;
  if (head.part == HeadPart::kQ)
    return m.data<uint16_t>(op.q) + (size_t{row.index} * heads.q_heads + head.index) * heads.head_dim;
  return m.data<uint16_t>(head.part == HeadPart::kK ? op.k_cache : op.v_cache) +
         kv_offset(static_cast<uint64_t>(block), head.index, row.row.position % kKvBlockTokens,
                   heads.kv_heads, heads.head_dim);
}

void store(const QkNormRope& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const float* from = l.y.data();
  for (size_t r = 0; r < l.rows.size(); ++r) {
    for (uint32_t n = 0; n < op.num_heads; ++n, from += heads.head_dim) {
      uint16_t* to = place(op, m, projected_head(heads, op.first_head + n), l.rows[r], l.blocks[r]);
      for (uint32_t i = 0; i < heads.head_dim; ++i) to[i] = float_to_bf16(from[i]);
    }
  }
}

}  // namespace

SERVAL_HOST_OP(QkNormRope)

}  // namespace serval
