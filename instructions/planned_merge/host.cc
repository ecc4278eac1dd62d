#include <algorithm>

#include "instructions/common/host_op.h"
#include "instructions/planned_attention/sums.h"
#include "instructions/planned_merge/op.h"
#include "vm/base/bf16.h"
#include "vm/host/memory.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SplitRow> rows;
  std::vector<float> places;  // [rows, 1 + their leaves, group_heads, head_dim + 2]
  std::vector<uint16_t> out;  // [rows, group_heads, head_dim] bf16
};

void load(const PlannedMerge& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const uint64_t cols = place_layout(heads).cols();
  l.rows.clear();
  l.places.clear();
  for_split_rows(op, m.shape(), *m.data<const AttentionList>(op.items), m.data<const PassRow>(op.rows),
                 [&](const SplitRow& row) {
                   l.rows.push_back(row);
                   const float* from = m.data<const float>(op.partial) + row.place * cols;
                   l.places.insert(l.places.end(), from, from + (uint64_t{row.leaves} + 1) * cols);
                 });
}

void compute(const PlannedMerge& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const PlaceLayout layout = place_layout(heads);
  l.out.clear();
  float* first = l.places.data();
  for (const SplitRow& row : l.rows) {
    for (uint32_t h = 0; h < layout.group_heads; ++h) {
      float* o = first + size_t{h} * layout.head_cols();
      AttentionSums sums{o[heads.head_dim], o[heads.head_dim + 1]};
      for (uint32_t leaf = 1; leaf <= row.leaves; ++leaf) {
        const float* next = o + leaf * layout.cols();
        merge(sums, o, {next[heads.head_dim], next[heads.head_dim + 1]}, next, heads.head_dim);
      }
      const float share = 1.0F / sums.total;
      for (uint32_t d = 0; d < heads.head_dim; ++d)
        l.out.push_back(to_16_bits(m.dtype(op.output), o[d] * share));
    }
    first += (uint64_t{row.leaves} + 1) * layout.cols();
  }
}

void store(const PlannedMerge& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const size_t count = size_t{heads.group_heads()} * heads.head_dim;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    std::copy_n(
        l.out.data() + r * count, count,
        m.data<uint16_t>(op.output) + (size_t{l.rows[r].row} * heads.kv_heads + l.rows[r].head) * count);
  }
}

}  // namespace

SERVAL_HOST_OP(PlannedMerge)

}  // namespace serval
