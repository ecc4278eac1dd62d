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
  float scale;

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
    v(&Attention::scale, "scale", "of the scores: 1 / sqrt(head_dim)");
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
};

constexpr PartialLayout partial_layout(uint32_t splits, const ProgramShape& shape) {
  return {splits, shape.heads.group_heads(), shape.heads.head_dim, whole_row_tiles(shape.limits.rows)};
}

// The first leaf of `slot` that belongs to `split`.
constexpr uint32_t first_leaf(uint32_t slot, uint32_t split, uint32_t splits) {
  return (split + splits - slot % splits) % splits;
}

inline void footprint(const Attention& op, const StateView* state, FootprintBuilder<Attention>& f) {
  const HeadShape& heads = f.shape().heads;
  const StateLimits& limits = f.shape().limits;
  const PartialLayout layout = partial_layout(op.splits, f.shape());
  const uint64_t group_cols = uint64_t{layout.group_heads} * heads.head_dim;
  const uint64_t k_begin = uint64_t{op.kv_head} * heads.head_dim, k_end = k_begin + heads.head_dim;
  f.pass_rows<&Attention::rows>();
  f.read<&Attention::block_table>({0, limits.sequences, 0, blocks_for_tokens(limits.max_context)});
  if (state == nullptr) {
    const uint64_t all_tokens = uint64_t{limits.kv_blocks} * kKvBlockTokens;
    const uint64_t first_row = layout.row(op.kv_head, op.split, 0);
    f.read_rows<&Attention::q>(RowSet::kActive, op.kv_head * group_cols, (op.kv_head + 1) * group_cols);
    f.read<&Attention::k_cache>({k_begin, k_end, 0, all_tokens});
    f.read<&Attention::v_cache>({k_begin, k_end, 0, all_tokens});
    f.write<&Attention::partial>({first_row, first_row + limits.rows, 0, layout.cols(limits.max_context)},
                                 Part::kSeenLeaves, op.splits);
    return;
  }
  for (uint32_t r = 0; r < limits.rows; ++r) {
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
  const HeadShape& heads = c.shape.heads;
  const uint64_t leaves = leaves_for_tokens(c.pass.context_tokens);
  const uint64_t mine = op.split < leaves ? (leaves - op.split + op.splits - 1) / op.splits : 0;
  const uint64_t tokens =
      c.pass.rows * (mine * kLeafTokens < c.pass.context_tokens ? mine * kLeafTokens : c.pass.context_tokens);
  const uint64_t kv = 2 * tokens * heads.head_dim;
  return {.bytes = kv * c.element_bytes(op.k_cache), .operations = 2 * kv * heads.group_heads()};
}

inline PageNeed pages(const Attention&) {
  return {.pinned = 0, .streaming = 2};
}  // a page of K and one of V at a time

inline void check(const Attention& op, OperandCheck& c) {
  const HeadShape& heads = c.shape().heads;
  const StateLimits& limits = c.shape().limits;
  c.pass_rows(op.rows);
  c.heads();
  c.dimension("splits", op.splits, 1);
  c.factor("scale", op.scale);
  if (!c.ok()) return;
  c.range("kv_head", op.kv_head, 1, heads.kv_heads);
  c.range("split", op.split, 1, op.splits);
  const PartialLayout layout = partial_layout(op.splits, c.shape());
  c.activation("q", op.q, DType::kBF16, heads.q_cols());
  c.kv_cache("k_cache", op.k_cache);
  c.kv_cache("v_cache", op.v_cache);
  c.block_table(op.block_table);
  c.tensor("partial", op.partial, DType::kF32, TensorKind::kActivation, layout.rows_of_all(heads.kv_heads),
           layout.cols(limits.max_context));
}

}  // namespace serval
