#include <algorithm>
#include <span>

#include "instructions/attention/op.h"
#include "instructions/common/host_op.h"
#include "instructions/common/leaf_attention.h"
#include "instructions/common/matvec.h"
#include "instructions/common/pass_rows.h"

namespace serval {
namespace {

// The keys of one leaf that some rows of one sequence see; such rows are neighbours in a pass that reads a
// prompt.
struct Leaf {
  uint32_t tokens;  // keys of the leaf that the row with the most visible keys sees
  int32_t blocks[kLeafBlocks];
};

// A row's share of a leaf. The parts of one leaf are contiguous.
struct Part {
  size_t row;       // into Local::rows
  size_t leaf;      // into Local::leaves
  uint32_t number;  // index of the leaf in its sequence
  uint32_t tokens;  // keys that the row sees
};

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<Leaf> leaves;
  std::vector<Part> parts;
  std::vector<float> q;        // [rows, group_heads, head_dim]
  std::vector<uint16_t> k, v;  // [leaves, kLeafTokens, head_dim]
  std::vector<float> out;      // [parts, group_heads, head_dim + 2]
  // For the current leaf.
  std::vector<float> queries;  // [its parts, group_heads, head_dim]
  std::vector<float> keys;     // in the layout of multiply_keys()
  std::vector<float> scores;   // [its parts, group_heads, kLeafTokens]
  std::vector<SoftmaxRow> softmax_rows;
};

void copy_cache(const Attention& op, const HostMemory& m, TensorId cache, const Leaf& leaf, uint16_t* to) {
  const HeadShape& heads = m.shape().heads;
  for (uint32_t t = 0; t < leaf.tokens; t += kKvBlockTokens) {
    const uint32_t count = std::min(kKvBlockTokens, leaf.tokens - t);
    const uint16_t* from =
        m.data<const uint16_t>(cache) + kv_offset(static_cast<uint64_t>(leaf.blocks[t / kKvBlockTokens]),
                                                  op.kv_head, 0, heads.kv_heads, heads.head_dim);
    std::copy(from, from + size_t{count} * heads.head_dim, to + size_t{t} * heads.head_dim);
  }
}

// Lists leaves and parts of the rows [begin, end), which belong to one sequence.
void list_leaves(const Attention& op, const int32_t* table, size_t begin, size_t end, Local& l) {
  uint32_t most = 0;
  for (size_t r = begin; r < end; ++r) most = std::max(most, l.rows[r].row.position + 1);
  for (uint32_t number = first_leaf(l.rows[begin].row.slot, op.split, op.splits);
       number < leaves_for_tokens(most); number += op.splits) {
    const uint32_t first = number * kLeafTokens;
    Leaf leaf{std::min(kLeafTokens, most - first), {}};
    for (uint32_t b = 0; b < blocks_for_tokens(leaf.tokens); ++b)
      leaf.blocks[b] = table[number * kLeafBlocks + b];
    for (size_t r = begin; r < end; ++r) {
      const uint32_t tokens = l.rows[r].row.position + 1;
      if (tokens > first)
        l.parts.push_back({r, l.leaves.size(), number, std::min(kLeafTokens, tokens - first)});
    }
    l.leaves.push_back(leaf);
  }
}

void load(const Attention& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const StateLimits& limits = m.shape().limits;
  const uint32_t group_heads = heads.group_heads();
  const uint32_t blocks_per_sequence = blocks_for_tokens(limits.max_context);
  select_rows(op, m, RowSet::kActive, l.rows);
  l.leaves.clear();
  l.parts.clear();
  for (size_t begin = 0; begin < l.rows.size();) {
    const uint32_t slot = l.rows[begin].row.slot;
    size_t end = begin + 1;
    while (end < l.rows.size() && l.rows[end].row.slot == slot) ++end;
    list_leaves(op, m.data<const int32_t>(op.block_table) + slot * blocks_per_sequence, begin, end, l);
    begin = end;
  }
  const size_t group_cols = size_t{group_heads} * heads.head_dim;
  load_rows(m, op.q, l.rows, heads.q_cols(), op.kv_head * group_cols, group_cols, l.q);
  const size_t leaf_values = size_t{kLeafTokens} * heads.head_dim;
  l.k.resize(l.leaves.size() * leaf_values);
  l.v.resize(l.leaves.size() * leaf_values);
  for (size_t i = 0; i < l.leaves.size(); ++i) {
    copy_cache(op, m, op.k_cache, l.leaves[i], l.k.data() + i * leaf_values);
    copy_cache(op, m, op.v_cache, l.leaves[i], l.v.data() + i * leaf_values);
  }
}

// Scores of the `parts` of one leaf: part by part for few queries; for many, the keys are widened once for
// all of them.
void score(const HeadShape& heads, std::span<const Part> parts, Local& l) {
  constexpr size_t kManyQueries = 8;
  const size_t group_heads = heads.group_heads();
  const size_t group_cols = group_heads * heads.head_dim;
  const size_t queries = parts.size() * group_heads;
  const size_t index = parts.front().leaf;
  const uint16_t* k = l.k.data() + index * kLeafTokens * heads.head_dim;
  l.scores.resize(queries * kLeafTokens);
  if (queries < kManyQueries) {
    for (size_t i = 0; i < parts.size(); ++i) {
      matvec(k, parts[i].tokens, heads.head_dim, l.q.data() + parts[i].row * group_cols, group_heads,
             l.scores.data() + i * group_heads * kLeafTokens, kLeafTokens);
    }
    return;
  }
  l.queries.resize(queries * heads.head_dim);
  for (size_t i = 0; i < parts.size(); ++i) {
    const float* from = l.q.data() + parts[i].row * group_cols;
    std::copy(from, from + group_cols, l.queries.data() + i * group_cols);
  }
  const uint32_t tokens = l.leaves[index].tokens;
  l.keys.resize(whole_key_groups(tokens) * heads.head_dim);
  widen_keys(k, tokens, heads.head_dim, l.keys.data());
  multiply_keys(l.keys.data(), tokens, heads.head_dim, l.queries.data(), queries, l.scores.data(),
                kLeafTokens);
}

// The `parts` are those of one leaf; `out` is the output of the first.
void attend(const Attention& op, const HeadShape& heads, std::span<const Part> parts, Local& l, float* out) {
  const size_t group_heads = heads.group_heads();
  const size_t stride = heads.head_dim + PartialLayout::kExtra;
  const uint16_t* v = l.v.data() + parts.front().leaf * kLeafTokens * heads.head_dim;
  score(heads, parts, l);
  uint32_t common = kLeafTokens;  // keys that all parts see
  for (const Part& part : parts) common = std::min(common, part.tokens);
  const auto scores_of = [&](size_t query) { return l.scores.data() + query * kLeafTokens; };
  l.softmax_rows.clear();
  for (size_t query = 0; query < parts.size() * group_heads; ++query) {
    float* extra = out + query * stride + heads.head_dim;
    l.softmax_rows.push_back({scores_of(query), parts[query / group_heads].tokens, extra, extra + 1});
  }
  softmax(l.softmax_rows, op.scale);
  accumulate_rows(v, common, heads.head_dim, scores_of(0), kLeafTokens, parts.size() * group_heads, out,
                  stride);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].tokens == common) continue;
    accumulate_rows(v + size_t{common} * heads.head_dim, parts[i].tokens - common, heads.head_dim,
                    scores_of(i * group_heads) + common, kLeafTokens, group_heads,
                    out + i * group_heads * stride, stride);
  }
}

void compute(const Attention& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const size_t count = partial_layout(op.splits, m.shape()).leaf_cols();
  l.out.assign(l.parts.size() * count, 0.0F);
  const std::span<const Part> parts = l.parts;
  for (size_t begin = 0; begin < parts.size();) {
    size_t end = begin + 1;
    while (end < parts.size() && parts[end].leaf == parts[begin].leaf) ++end;
    attend(op, heads, parts.subspan(begin, end - begin), l, l.out.data() + begin * count);
    begin = end;
  }
}

void store(const Attention& op, const HostMemory& m, Local& l) {
  const StateLimits& limits = m.shape().limits;
  const PartialLayout layout = partial_layout(op.splits, m.shape());
  const size_t count = layout.leaf_cols();
  for (size_t i = 0; i < l.parts.size(); ++i) {
    const uint64_t row = layout.row(op.kv_head, op.split, l.rows[l.parts[i].row].index);
    const float* from = l.out.data() + i * count;
    std::copy(
        from, from + count,
        m.data<float>(op.partial) + row * layout.cols(limits.max_context) + layout.col(l.parts[i].number, 0));
  }
}

}  // namespace

SERVAL_HOST_OP(Attention)

}  // namespace serval
