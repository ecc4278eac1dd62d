#include <algorithm>
#include <cmath>
#include <limits>

#include "instructions/attention_merge/op.h"
#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"

namespace serval {
namespace {

constexpr uint32_t kMaxHeadDim = 128;

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<size_t> begin;  // first leaf of each (row, head) in `leaves`; one more entry at the end
  std::vector<float> leaves;  // [leaves, head_dim + 2]
  std::vector<uint16_t> out;  // [rows, num_heads, head_dim] in the output's type
};

void load(const AttentionMerge& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const StateLimits& limits = m.shape().limits;
  const PartialLayout layout = partial_layout(op.splits, m.shape());
  const size_t stride = heads.head_dim + PartialLayout::kExtra;
  const uint64_t cols = layout.cols(limits.max_context);
  select_rows(op, m, RowSet::kActive, l.rows);
  l.begin.assign(1, 0);
  l.leaves.clear();
  for (const SelectedRow& r : l.rows) {
    const uint32_t leaves = leaves_for_tokens(r.row.position + 1);
    for (uint32_t head = op.first_head; head < op.first_head + op.num_heads; ++head) {
      for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
        const uint64_t row =
            layout.row(head / layout.group_heads, layout.split_of(r.row.slot, leaf), r.index);
        const float* from =
            m.data<const float>(op.partial) + row * cols + layout.col(leaf, head % layout.group_heads);
        l.leaves.insert(l.leaves.end(), from, from + stride);
      }
      l.begin.push_back(l.leaves.size() / stride);
    }
  }
}

void merge(const float* leaves, size_t count, uint32_t head_dim, DType dtype, uint16_t* out) {
  const size_t stride = head_dim + PartialLayout::kExtra;
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, leaves[i * stride + head_dim]);
  float totals[kMergeAccumulators] = {};
  float sums[kMergeAccumulators][kMaxHeadDim] = {};
  for (size_t i = 0; i < count; ++i) {
    const float* leaf = leaves + i * stride;
    const float weight = std::exp(leaf[head_dim] - largest);
    totals[i % kMergeAccumulators] += weight * leaf[head_dim + 1];
    for (uint32_t d = 0; d < head_dim; ++d) sums[i % kMergeAccumulators][d] += weight * leaf[d];
  }
  for (uint32_t half = kMergeAccumulators / 2; half > 0; half /= 2) {
    for (uint32_t c = 0; c < half; ++c) {
      totals[c] += totals[c + half];
      for (uint32_t d = 0; d < head_dim; ++d) sums[c][d] += sums[c + half][d];
    }
  }
  for (uint32_t d = 0; d < head_dim; ++d) out[d] = to_16_bits(dtype, sums[0][d] / totals[0]);
}

void compute(const AttentionMerge& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const size_t stride = heads.head_dim + PartialLayout::kExtra;
  l.out.resize(l.rows.size() * op.num_heads * heads.head_dim);
  for (size_t i = 0; i + 1 < l.begin.size(); ++i) {
    merge(l.leaves.data() + l.begin[i] * stride, l.begin[i + 1] - l.begin[i], heads.head_dim,
          m.dtype(op.output), l.out.data() + i * heads.head_dim);
  }
}

void store(const AttentionMerge& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const size_t count = size_t{op.num_heads} * heads.head_dim;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const uint16_t* from = l.out.data() + r * count;
    std::copy(from, from + count,
              m.data<uint16_t>(op.output) +
                  (size_t{l.rows[r].index} * heads.q_heads + op.first_head) * heads.head_dim);
  }
}

}  // namespace

SERVAL_HOST_OP(AttentionMerge)

}  // namespace serval
