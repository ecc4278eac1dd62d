#include <algorithm>
#include <cmath>

#include "instructions/common/host_op.h"
#include "instructions/common/leaf_attention.h"
#include "instructions/common/matvec.h"
#include "instructions/common/pass_rows.h"
#include "instructions/planned_attention/op.h"
#include "instructions/planned_attention/sums.h"

namespace serval {
namespace {

// One KV head of one item: its inputs and results.
struct Work {
  AttentionItem item;
  uint32_t head = 0;
  uint32_t blocks = 0;              // from the item's first leaf on
  std::vector<uint32_t> rows;       // rows of the item that see some of its leaves
  std::vector<RowLeaves> leaves;    // of each row
  std::vector<uint32_t> positions;  // of each row
  std::vector<float> q;             // [rows, group_heads, head_dim]
  std::vector<uint16_t> k, v;       // [blocks, kKvBlockTokens, head_dim]
  std::vector<float> places;        // [rows, their places, group_heads, head_dim + 2]
  std::vector<size_t> first;        // index in places of each row's first
};

struct Local final : HostLocal {
  std::vector<Work> work;
};

void load_rows(const PlannedAttention& op, const HostMemory& m, Work& w) {
  const HeadShape& heads = m.shape().heads;
  const PassRow* table = m.data<const PassRow>(op.rows);
  const size_t group_cols = size_t{heads.group_heads()} * heads.head_dim;
  uint32_t tokens = 0;
  for (uint32_t i = 0; i < w.item.rows; ++i) {
    const PassRow& row = table[w.item.first_row + i];
    const RowLeaves leaves = row_leaves(w.item, row);
    if (leaves.none()) continue;
    w.rows.push_back(i);
    w.leaves.push_back(leaves);
    w.positions.push_back(row.position);
    tokens = std::max(tokens, std::min(row.position + 1, leaves.end * kPlannedLeafTokens));
    const uint16_t* q =
        m.data<const uint16_t>(op.q) + (size_t{w.item.first_row + i} * heads.kv_heads + w.head) * group_cols;
    w.q.resize(w.q.size() + group_cols);
    matvec_row(q, group_cols, w.q.data() + w.q.size() - group_cols);
  }
  w.blocks = blocks_for_tokens(tokens) - w.item.first_leaf * (kPlannedLeafTokens / kKvBlockTokens);
}

// Loads the cache blocks of the work, up to the last token that one of its rows sees.
void load_cache(const PlannedAttention& op, const HostMemory& m, const Work& w, TensorId cache,
                std::vector<uint16_t>& to) {
  const HeadShape& heads = m.shape().heads;
  const StateLimits& limits = m.shape().limits;
  const uint32_t first_token = w.item.first_leaf * kPlannedLeafTokens;
  const uint32_t tokens = *std::max_element(w.positions.begin(), w.positions.end()) + 1;
  const int32_t* table =
      m.data<const int32_t>(op.block_table) + size_t{w.item.slot} * blocks_for_tokens(limits.max_context);
  to.assign(size_t{w.blocks} * kKvBlockTokens * heads.head_dim, 0);
  for (uint32_t b = 0; b < w.blocks; ++b) {
    const uint32_t t = first_token + b * kKvBlockTokens;
    const auto block = static_cast<uint64_t>(table[t / kKvBlockTokens]);
    const uint16_t* from =
        m.data<const uint16_t>(cache) + kv_offset(block, w.head, 0, heads.kv_heads, heads.head_dim);
    std::copy_n(from, size_t{std::min(tokens - t, kKvBlockTokens)} * heads.head_dim,
                to.data() + size_t{b} * kKvBlockTokens * heads.head_dim);
  }
}

void load(const PlannedAttention& op, const HostMemory& m, Local& l) {
  l.work.clear();
  for_items(op, m.shape(), *m.data<const AttentionList>(op.items), [&](const AttentionItem& item) {
    for (uint32_t head = item.first_head; head < item.first_head + item.heads; ++head) {
      Work w;
      w.item = item;
      w.head = head;
      load_rows(op, m, w);
      if (w.rows.empty()) continue;
      load_cache(op, m, w, op.k_cache, w.k);
      load_cache(op, m, w, op.v_cache, w.v);
      l.work.push_back(std::move(w));
    }
  });
}

// One query head of one row, processed leaf by leaf.
class Query {
 public:
  Query(const PlannedAttention& op, const HeadShape& heads, const Work& work, size_t row, float* places)
      : heads_(heads),
        work_(work),
        position_(work.positions[row]),
        leaves_(work.leaves[row]),
        places_(places),
        scale_(op.scale * kLog2OfE),
        o_(heads.head_dim),
        merged_o_(heads.head_dim) {}

  // `scores`: the query's scores of the keys of the sequence's block `block`; they become weights in place.
  void add_block(uint32_t block, float* scores) {
    const uint32_t first_token = block * kKvBlockTokens, leaf = first_token / kPlannedLeafTokens;
    if (leaf >= leaves_.end || first_token > position_) return;
    if (first_token % kPlannedLeafTokens == 0) begin_leaf();
    const uint32_t tokens = std::min(position_ + 1 - first_token, kKvBlockTokens);
    float largest = sums_.largest;
    for (uint32_t t = 0; t < tokens; ++t) largest = std::max(largest, scores[t] * scale_);
    const float shrunk = std::exp2(sums_.largest - largest);
    float total = 0;
    for (uint32_t t = 0; t < tokens; ++t) {
      const float p = std::exp2(std::fma(scores[t], scale_, -largest));
      total += p;
      scores[t] = bf16_to_float(float_to_bf16(p));
    }
    sums_ = {largest, sums_.total * shrunk + total};
    for (float& o : o_) o *= shrunk;
    const size_t first_block = size_t{work_.item.first_leaf} * (kPlannedLeafTokens / kKvBlockTokens);
    accumulate_rows(work_.v.data() + (block - first_block) * kKvBlockTokens * heads_.head_dim, tokens,
                    heads_.head_dim, scores, o_.data());
    const uint32_t end = std::min(position_ + 1, (leaf + 1) * kPlannedLeafTokens);
    if (first_token + tokens == end) end_leaf(leaf);
  }

 private:
  void begin_leaf() {
    sums_ = {};
    std::fill(o_.begin(), o_.end(), 0.0F);
  }
  void end_leaf(uint32_t leaf) {
    if (work_.item.first_leaf != 0)
      return write(places_ + (leaf - leaves_.first) * place_values(), sums_, o_);
    if (leaf == 0) {
      merged_ = sums_;
      merged_o_ = o_;
    } else {
      merge(merged_, merged_o_.data(), sums_, o_.data(), heads_.head_dim);
    }
    if (leaf + 1 == leaves_.end) write(places_, merged_, merged_o_);
  }
  size_t place_values() const { return place_layout(heads_).cols(); }
  static void write(float* to, const AttentionSums& sums, const std::vector<float>& o) {
    std::copy(o.begin(), o.end(), to);
    to[o.size()] = sums.largest;
    to[o.size() + 1] = sums.total;
  }

  const HeadShape& heads_;
  const Work& work_;
  const uint32_t position_;
  const RowLeaves leaves_;
  float* const places_;
  const float scale_;
  AttentionSums sums_, merged_;
  std::vector<float> o_, merged_o_;
};

void compute_work(const PlannedAttention& op, const HeadShape& heads, Work& w) {
  const PlaceLayout layout = place_layout(heads);
  w.first.clear();
  size_t values = 0;
  for (const RowLeaves& leaves : w.leaves) {
    w.first.push_back(values);
    values += leaves.places(w.item) * layout.cols();
  }
  w.places.assign(values, 0);
  std::vector<Query> queries;
  for (size_t r = 0; r < w.rows.size(); ++r) {
    for (uint32_t h = 0; h < layout.group_heads; ++h)
      queries.emplace_back(op, heads, w, r, w.places.data() + w.first[r] + size_t{h} * layout.head_cols());
  }
  std::vector<float> scores(queries.size() * kKvBlockTokens);
  const uint32_t first_block = w.item.first_leaf * (kPlannedLeafTokens / kKvBlockTokens);
  for (uint32_t b = 0; b < w.blocks; ++b) {
    matvec(w.k.data() + size_t{b} * kKvBlockTokens * heads.head_dim, kKvBlockTokens, heads.head_dim,
           w.q.data(), queries.size(), scores.data(), kKvBlockTokens);
    for (size_t n = 0; n < queries.size(); ++n)
      queries[n].add_block(first_block + b, scores.data() + n * kKvBlockTokens);
  }
}

void compute(const PlannedAttention& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  for (Work& w : l.work) compute_work(op, heads, w);
}

void store_output(const PlannedAttention& op, const HostMemory& m, const Work& w, size_t r) {
  const HeadShape& heads = m.shape().heads;
  const PlaceLayout layout = place_layout(heads);
  uint16_t* to =
      m.data<uint16_t>(op.output) +
      (size_t{w.item.first_row + w.rows[r]} * heads.kv_heads + w.head) * layout.group_heads * heads.head_dim;
  for (uint32_t h = 0; h < layout.group_heads; ++h) {
    const float* sums = w.places.data() + w.first[r] + size_t{h} * layout.head_cols();
    const float share = 1.0F / sums[heads.head_dim + 1];
    for (uint32_t d = 0; d < heads.head_dim; ++d) *to++ = to_16_bits(m.dtype(op.output), sums[d] * share);
  }
}

void store(const PlannedAttention& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const uint64_t cols = place_layout(heads).cols();
  for (const Work& w : l.work) {
    for (size_t r = 0; r < w.rows.size(); ++r) {
      if (w.item.first_place == kNoPlace) {
        store_output(op, m, w, r);
        continue;
      }
      const float* from = w.places.data() + w.first[r];
      std::copy_n(from, w.leaves[r].places(w.item) * cols,
                  m.data<float>(op.partial) + place_of_row(w.item, w.rows[r]) * cols);
    }
  }
}

}  // namespace

SERVAL_HOST_OP(PlannedAttention)

}  // namespace serval
