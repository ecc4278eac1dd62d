// Attention over the paged KV cache, one KV head and one split of leaves.
//
// A sequence's keys are divided into leaves of kLeafTokens tokens. Leaf l of slot s belongs to split (s + l)
// mod splits: the leaves of a long context spread over all splits, those of short sequences over different
// ones. The instance for (kv_head, split) computes, for every active row, every leaf of its split that the
// row can see, and each query head of the group: m = the largest score, l = sum of exp(score - m), o = sum of
// bf16(exp(score - m)) × V. The bounds of a leaf and its order of sums do not depend on the number of splits.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "vm/layout/row_tiles.h"
#include "vm/layout/units.h"

namespace serval {

struct Attention {
  TensorId q;
  TensorId k_cache;
  TensorId v_cache;
  TensorId rows;
  TensorId block_table;
  TensorId partial;
  uint32_t kv_head;
  uint32_t split;
  uint32_t splits;
  uint32_t head_dim;
  uint32_t q_heads;
  uint32_t kv_heads;
  uint32_t max_context;
  uint32_t kv_blocks;
  float scale;
  uint32_t max_rows;
  uint32_t max_sequences;

  static constexpr KernelSet kKernels = {.tile_order = false, .tiles = false};

  static constexpr std::array kWindows = {&Attention::kv_head, &Attention::split};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Attention::q, "q", "in [max_rows, q_heads * head_dim] bf16");
    v(&Attention::k_cache, "k_cache", "in [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&Attention::v_cache, "v_cache", "in [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&Attention::rows, "rows", "in: the pass's rows");
    v(&Attention::block_table, "block_table", "in [max_sequences, blocks of a sequence] i32");
    v(&Attention::partial, "partial", "out [kv_heads * splits * rows, partial_cols] f32: PartialLayout");
    v(&Attention::kv_head, "kv_head", "head");
    v(&Attention::split, "split", "split");
    v(&Attention::splits, "splits", "splits");
    v(&Attention::head_dim, "head_dim", "channels");
    v(&Attention::q_heads, "q_heads", "heads");
    v(&Attention::kv_heads, "kv_heads", "heads");
    v(&Attention::max_context, "max_context", "tokens");
    v(&Attention::kv_blocks, "kv_blocks", "blocks of 64 tokens");
    v(&Attention::scale, "scale", "of the scores: 1 / sqrt(head_dim)");
    v(&Attention::max_rows, "max_rows", "rows of a pass");
    v(&Attention::max_sequences, "max_sequences", "sequences of a state: its slots");
  }
};

// The tensor of partial results. Its row (kv_head × splits + split) × rows + pass row, where `rows` are those
// of a pass in whole tiles (vm/state/rows.h), holds, for each leaf of that split in order and each query head
// of the group, head_dim sums, then m, then l. It grows with rows × max_context: 4 (head_dim + 2) bytes for
// each row, leaf and query head.
struct PartialLayout {
  uint32_t splits;
  uint32_t group_heads;  // query heads of a KV head
  uint32_t head_dim;
  uint32_t rows;

  static constexpr uint32_t kExtra = 2;  // m and l
  constexpr uint32_t split_of(uint32_t slot, uint32_t leaf) const { return (slot + leaf) % splits; }
  constexpr uint64_t row(uint32_t kv_head, uint32_t split, uint32_t pass_row) const {
    return (uint64_t{kv_head} * splits + split) * rows + pass_row;
  }
  constexpr uint64_t rows_of_all(uint32_t kv_heads) const { return uint64_t{kv_heads} * splits * rows; }
  constexpr uint64_t leaf_cols() const { return uint64_t{group_heads} * (head_dim + kExtra); }
  constexpr uint64_t col(uint32_t leaf, uint32_t group_head) const {
    return leaf / splits * leaf_cols() + uint64_t{group_head} * (head_dim + kExtra);
  }
  constexpr uint64_t cols(uint32_t max_context) const {
    return (leaves_for_tokens(max_context) + splits - 1) / splits * leaf_cols();
  }
  // Distinguishes layouts that a tensor of one shape and a program's max_context allow: given both, the
  // tensor's rows determine the KV heads and its columns the query heads of each.
  constexpr uint32_t key() const { return splits * 2 + (head_dim > 64 ? 1 : 0); }
};

constexpr PartialLayout partial_layout(const Attention& op) {
  return {op.splits, op.q_heads / op.kv_heads, op.head_dim, whole_row_tiles(op.max_rows)};
}

// The first leaf of `slot` that belongs to `split`.
constexpr uint32_t first_leaf(uint32_t slot, uint32_t split, uint32_t splits) {
  return (split + splits - slot % splits) % splits;
}

inline void footprint(const Attention& op, const StateView* state, FootprintBuilder<Attention>& f) {
  const PartialLayout layout = partial_layout(op);
  const uint64_t group_cols = uint64_t{layout.group_heads} * op.head_dim;
  const uint64_t k_begin = uint64_t{op.kv_head} * op.head_dim, k_end = k_begin + op.head_dim;
  f.pass_rows<&Attention::rows>();
  f.read<&Attention::block_table>({0, op.max_sequences, 0, blocks_for_tokens(op.max_context)});
  if (state == nullptr) {
    const uint64_t all_tokens = uint64_t{op.kv_blocks} * kKvBlockTokens;
    const uint64_t first_row = layout.row(op.kv_head, op.split, 0);
    f.read_rows<&Attention::q>(RowSet::kActive, op.kv_head * group_cols, (op.kv_head + 1) * group_cols);
    f.read<&Attention::k_cache>({k_begin, k_end, 0, all_tokens});
    f.read<&Attention::v_cache>({k_begin, k_end, 0, all_tokens});
    f.write<&Attention::partial>({first_row, first_row + op.max_rows, 0, layout.cols(op.max_context)},
                                 Part::kSeenLeaves, layout.key());
    return;
  }
  for (uint32_t r = 0; r < op.max_rows; ++r) {
    const PassRow& row = state->rows[r];
    if (!row_is_active(row)) continue;
    const uint32_t tokens = row.position + 1;
    const uint32_t first = first_leaf(row.slot, op.split, op.splits);
    const uint32_t leaves = leaves_for_tokens(tokens);
    if (first >= leaves) continue;
    f.read<&Attention::q>({r, uint64_t{r} + 1, op.kv_head * group_cols, (op.kv_head + 1) * group_cols});
    for (uint32_t leaf = first; leaf < leaves; leaf += op.splits) {
      const uint32_t leaf_end = (leaf + 1) * kLeafTokens < tokens ? (leaf + 1) * kLeafTokens : tokens;
      for (uint32_t t = leaf * kLeafTokens; t < leaf_end; t += kKvBlockTokens) {
        const uint64_t entry = uint64_t{row.slot} * state->blocks_per_sequence + t / kKvBlockTokens;
        const uint64_t begin = static_cast<uint64_t>(state->block_table[entry]) * kKvBlockTokens;
        const uint64_t end = begin + (leaf_end - t < kKvBlockTokens ? leaf_end - t : kKvBlockTokens);
        f.read<&Attention::k_cache>({k_begin, k_end, begin, end});
        f.read<&Attention::v_cache>({k_begin, k_end, begin, end});
      }
      const uint64_t out_row = layout.row(op.kv_head, op.split, r);
      f.write<&Attention::partial>(
          {out_row, out_row + 1, layout.col(leaf, 0), layout.col(leaf, 0) + layout.leaf_cols()});
    }
  }
}

inline Cost cost(const Attention& op, const CostView& c) {
  const uint64_t leaves = leaves_for_tokens(c.pass.context_tokens);
  const uint64_t mine = op.split < leaves ? (leaves - op.split + op.splits - 1) / op.splits : 0;
  const uint64_t tokens =
      c.pass.rows * (mine * kLeafTokens < c.pass.context_tokens ? mine * kLeafTokens : c.pass.context_tokens);
  const uint64_t kv = 2 * tokens * op.head_dim;
  return {.bytes = kv * c.element_bytes(op.k_cache), .operations = 2 * kv * (op.q_heads / op.kv_heads)};
}

inline PageNeed pages(const Attention&) {
  return {.pinned = 0, .streaming = 2};
}  // a page of K and one of V at a time

inline void check(const Attention& op, OperandCheck& c) {
  c.pass_rows(op.rows, op.max_rows);
  c.require(op.head_dim == 64 || op.head_dim == 128, "head_dim", op.head_dim, "64 or 128");
  c.dimension("kv_heads", op.kv_heads, 1);
  c.dimension("q_heads", op.q_heads, 1);
  c.dimension("splits", op.splits, 1);
  c.limit("max_context", op.max_context, &StateLimits::max_context);
  c.limit("kv_blocks", op.kv_blocks, &StateLimits::kv_blocks);
  c.factor("scale", op.scale);
  if (!c.ok()) return;
  c.require(op.q_heads % op.kv_heads == 0, "q_heads", op.q_heads, "a multiple of kv_heads");
  c.range("kv_head", op.kv_head, 1, op.kv_heads);
  c.range("split", op.split, 1, op.splits);
  const uint64_t q_cols = uint64_t{op.q_heads} * op.head_dim;
  const uint64_t kv_rows = uint64_t{op.kv_heads} * op.head_dim;
  const uint64_t kv_cols = uint64_t{op.kv_blocks} * kKvBlockTokens;
  const PartialLayout layout = partial_layout(op);
  c.activation("q", op.q, DType::kBF16, op.max_rows, q_cols);
  c.tensor("k_cache", op.k_cache, DType::kBF16, TensorKind::kKvCache, kv_rows, kv_cols);
  c.tensor("v_cache", op.v_cache, DType::kBF16, TensorKind::kKvCache, kv_rows, kv_cols);
  c.block_table(op.block_table, op.max_sequences, op.max_context);
  c.tensor("partial", op.partial, DType::kF32, TensorKind::kActivation, layout.rows_of_all(op.kv_heads),
           layout.cols(op.max_context));
}

}  // namespace serval
