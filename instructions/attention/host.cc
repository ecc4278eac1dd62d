#include <algorithm>
#include <cmath>
#include <limits>

#include "instructions/attention/op.h"
#include "instructions/common/host_op.h"
#include "instructions/common/matvec.h"
#include "instructions/common/pass_rows.h"

namespace serval {
namespace {

// One leaf of one row: where its keys are and what came of them.
struct Leaf {
  size_t row;  // into Local::rows
  uint32_t leaf;
  uint32_t tokens;  // keys of this leaf that the row sees
  int32_t blocks[kLeafBlocks];
};

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<Leaf> leaves;
  std::vector<float> q;        // [rows, group_heads, head_dim]
  std::vector<uint16_t> k, v;  // [leaves, kLeafTokens, head_dim]
  std::vector<float> out;      // [leaves, group_heads, head_dim + 2]
};

void copy_cache(const Attention& op, const HostMemory& m, TensorId cache, const Leaf& leaf, uint16_t* to) {
  for (uint32_t t = 0; t < leaf.tokens; t += kKvBlockTokens) {
    const uint32_t count = std::min(kKvBlockTokens, leaf.tokens - t);
    const uint16_t* from =
        m.data<const uint16_t>(cache) + kv_offset(static_cast<uint64_t>(leaf.blocks[t / kKvBlockTokens]),
                                                  op.kv_head, 0, op.kv_heads, op.head_dim);
    std::copy(from, from + size_t{count} * op.head_dim, to + size_t{t} * op.head_dim);
  }
}

void load(const Attention& op, const HostMemory& m, Local& l) {
  const uint32_t group_heads = op.q_heads / op.kv_heads;
  const uint32_t blocks_per_sequence = blocks_for_tokens(op.max_context);
  select_rows(op, m, RowSet::kActive, l.rows);
  l.leaves.clear();
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const PassRow& row = l.rows[r].row;
    const uint32_t tokens = row.position + 1;
    const int32_t* table = m.data<const int32_t>(op.block_table) + row.slot * blocks_per_sequence;
    for (uint32_t leaf = first_leaf(row.slot, op.split, op.splits); leaf < leaves_for_tokens(tokens);
         leaf += op.splits) {
      Leaf item{r, leaf, std::min(kLeafTokens, tokens - leaf * kLeafTokens), {}};
      for (uint32_t b = 0; b < blocks_for_tokens(item.tokens); ++b)
        item.blocks[b] = table[leaf * kLeafBlocks + b];
      l.leaves.push_back(item);
    }
  }
  const size_t group_cols = size_t{group_heads} * op.head_dim;
  load_bf16_rows(m, op.q, l.rows, size_t{op.q_heads} * op.head_dim, op.kv_head * group_cols, group_cols, l.q);
  const size_t leaf_values = size_t{kLeafTokens} * op.head_dim;
  l.k.resize(l.leaves.size() * leaf_values);
  l.v.resize(l.leaves.size() * leaf_values);
  for (size_t i = 0; i < l.leaves.size(); ++i) {
    copy_cache(op, m, op.k_cache, l.leaves[i], l.k.data() + i * leaf_values);
    copy_cache(op, m, op.v_cache, l.leaves[i], l.v.data() + i * leaf_values);
  }
}

// Scores of one query head over a leaf become weights (rounded to bf16) in place; returns the largest score.
float soften(float* scores, uint32_t tokens, float scale, float& sum) {
  float largest = -std::numeric_limits<float>::infinity();
  for (uint32_t t = 0; t < tokens; ++t) {
    scores[t] *= scale;
    largest = std::max(largest, scores[t]);
  }
  sum = 0;
  for (uint32_t t = 0; t < tokens; ++t) {
    const float p = std::exp(scores[t] - largest);
    sum += p;
    scores[t] = bf16_to_float(float_to_bf16(p));
  }
  return largest;
}

void compute(const Attention& op, const HostMemory&, Local& l) {
  const uint32_t group_heads = op.q_heads / op.kv_heads;
  const size_t stride = op.head_dim + PartialLayout::kExtra;
  const size_t leaf_values = size_t{kLeafTokens} * op.head_dim;
  l.out.assign(l.leaves.size() * group_heads * stride, 0.0F);
  std::vector<float> scores(size_t{group_heads} * kLeafTokens);
  for (size_t i = 0; i < l.leaves.size(); ++i) {
    const Leaf& leaf = l.leaves[i];
    matvec(l.k.data() + i * leaf_values, leaf.tokens, op.head_dim,
           l.q.data() + leaf.row * group_heads * op.head_dim, group_heads, scores.data(), kLeafTokens);
    for (uint32_t h = 0; h < group_heads; ++h) {
      float* of_head = scores.data() + size_t{h} * kLeafTokens;
      float* out = l.out.data() + (i * group_heads + h) * stride;
      out[op.head_dim] = soften(of_head, leaf.tokens, op.scale, out[op.head_dim + 1]);
      accumulate_rows(l.v.data() + i * leaf_values, leaf.tokens, op.head_dim, of_head, out);
    }
  }
}

void store(const Attention& op, const HostMemory& m, Local& l) {
  const PartialLayout layout = partial_layout(op);
  const size_t count = layout.leaf_cols();
  for (size_t i = 0; i < l.leaves.size(); ++i) {
    const uint64_t row = layout.row(op.kv_head, op.split, l.rows[l.leaves[i].row].index);
    const float* from = l.out.data() + i * count;
    std::copy(
        from, from + count,
        m.data<float>(op.partial) + row * layout.cols(op.max_context) + layout.col(l.leaves[i].leaf, 0));
  }
}

}  // namespace

SERVAL_HOST_OP(Attention)

}  // namespace serval
