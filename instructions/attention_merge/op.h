// Merges the leaves of each head: with M = max m_i, output = (Σ exp(m_i - M) o_i) / (Σ exp(m_i - M) l_i).
//
// Both sums have an order that depends only on the number of leaves: leaf i belongs to accumulator i mod
// kMergeAccumulators; an accumulator adds its leaves in order, and then the upper half of the accumulators is
// added to the lower half until one is left.
#pragma once

#include <array>

#include "instructions/attention/op.h"
#include "instructions/common/kernel_set.h"
#include "vm/layout/row_tiles.h"

namespace serval {

inline constexpr uint32_t kMergeAccumulators = 8;

struct AttentionMerge {
  TensorId partial;
  TensorId rows;
  TensorId output;
  uint32_t first_head;
  uint32_t num_heads;
  uint32_t splits;

  static constexpr KernelSet kKernels = {.tile_order = false, .tiles = false};

  static constexpr std::array kWindows = {&AttentionMerge::first_head, &AttentionMerge::num_heads};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&AttentionMerge::partial, "partial", "in [kv_heads * splits * rows, partial_cols] f32: PartialLayout");
    v(&AttentionMerge::rows, "rows", "in: the pass's rows");
    v(&AttentionMerge::output, "output", "out [max_rows, q_heads * head_dim] bf16 or f16");
    v(&AttentionMerge::first_head, "first_head", "query heads");
    v(&AttentionMerge::num_heads, "num_heads", "query heads");
    v(&AttentionMerge::splits, "splits", "splits");
  }
};

inline void footprint(const AttentionMerge& op, const StateView* state, FootprintBuilder<AttentionMerge>& f) {
  const HeadShape& heads = f.shape().heads;
  const StateLimits& limits = f.shape().limits;
  const PartialLayout layout = partial_layout(op.splits, f.shape());
  const uint32_t head_end = op.first_head + op.num_heads;
  f.pass_rows<&AttentionMerge::rows>();
  f.write_rows<&AttentionMerge::output>(RowSet::kActive, uint64_t{op.first_head} * heads.head_dim,
                                        uint64_t{head_end} * heads.head_dim);
  if (state == nullptr) {
    const uint32_t first_group = op.first_head / layout.group_heads;
    const uint32_t last_group = (head_end - 1) / layout.group_heads;
    const uint64_t begin = layout.row(first_group, 0, 0), end = layout.row(last_group + 1, 0, 0);
    // One box if the pass fills its tiles of rows; otherwise one for each KV head and split.
    const bool whole_tiles = limits.rows == layout.rows;
    const uint64_t step = whole_tiles ? end - begin : layout.rows;
    const uint64_t rows = whole_tiles ? step : limits.rows;
    for (uint64_t row = begin; row < end; row += step) {
      f.read<&AttentionMerge::partial>({row, row + rows, 0, layout.cols(limits.max_context)},
                                       Part::kSeenLeaves, op.splits);
    }
    return;
  }
  for (uint32_t r = 0; r < limits.rows; ++r) {
    const PassRow& row = state->rows[r];
    if (!row_is_active(row)) continue;
    for (uint32_t head = op.first_head; head < head_end; ++head) {
      for (uint32_t leaf = 0; leaf < leaves_for_tokens(row.position + 1); ++leaf) {
        const uint64_t at = layout.row(head / layout.group_heads, layout.split_of(row.slot, leaf), r);
        const uint64_t col = layout.col(leaf, head % layout.group_heads);
        f.read<&AttentionMerge::partial>({at, at + 1, col, col + heads.head_dim + PartialLayout::kExtra});
      }
    }
  }
}

inline Cost cost(const AttentionMerge& op, const CostView& c) {
  const HeadShape& heads = c.shape.heads;
  const uint64_t values = uint64_t{c.pass.rows} * op.num_heads * leaves_for_tokens(c.pass.context_tokens) *
                          (heads.head_dim + PartialLayout::kExtra);
  return {.cached_bytes = values * c.element_bytes(op.partial), .operations = 2 * values};
}

inline PageNeed pages(const AttentionMerge&) {
  return {.pinned = 0, .streaming = 0};
}  // leaves go through registers

inline void check(const AttentionMerge& op, OperandCheck& c) {
  const HeadShape& heads = c.shape().heads;
  const StateLimits& limits = c.shape().limits;
  c.pass_rows(op.rows);
  c.heads();
  c.dimension("splits", op.splits, 1);
  if (!c.ok()) return;
  c.range("first_head", op.first_head, op.num_heads, heads.q_heads);
  const PartialLayout layout = partial_layout(op.splits, c.shape());
  c.tensor("partial", op.partial, DType::kF32, TensorKind::kActivation, layout.rows_of_all(heads.kv_heads),
           layout.cols(limits.max_context));
  c.product_input("output", op.output, heads.q_cols());
}

}  // namespace serval
