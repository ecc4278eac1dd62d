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
  uint32_t head_dim;
  uint32_t q_heads;
  uint32_t kv_heads;
  uint32_t max_context;
  uint32_t max_rows;

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
    v(&AttentionMerge::head_dim, "head_dim", "channels");
    v(&AttentionMerge::q_heads, "q_heads", "heads");
    v(&AttentionMerge::kv_heads, "kv_heads", "heads");
    v(&AttentionMerge::max_context, "max_context", "tokens");
    v(&AttentionMerge::max_rows, "max_rows", "rows of a pass");
  }
};

constexpr PartialLayout partial_layout(const AttentionMerge& op) {
  return {op.splits, op.q_heads / op.kv_heads, op.head_dim, whole_row_tiles(op.max_rows)};
}

inline void footprint(const AttentionMerge& op, const StateView* state, FootprintBuilder<AttentionMerge>& f) {
  const PartialLayout layout = partial_layout(op);
  const uint32_t head_end = op.first_head + op.num_heads;
  f.pass_rows<&AttentionMerge::rows>();
  f.write_rows<&AttentionMerge::output>(RowSet::kActive, uint64_t{op.first_head} * op.head_dim,
                                        uint64_t{head_end} * op.head_dim);
  if (state == nullptr) {
    const uint32_t first_group = op.first_head / layout.group_heads;
    const uint32_t last_group = (head_end - 1) / layout.group_heads;
    const uint64_t begin = layout.row(first_group, 0, 0), end = layout.row(last_group + 1, 0, 0);
    // One box if the pass fills its tiles of rows; otherwise one for each KV head and split.
    const bool whole_tiles = op.max_rows == layout.rows;
    const uint64_t step = whole_tiles ? end - begin : layout.rows;
    const uint64_t rows = whole_tiles ? step : op.max_rows;
    for (uint64_t row = begin; row < end; row += step) {
      f.read<&AttentionMerge::partial>({row, row + rows, 0, layout.cols(op.max_context)}, Part::kSeenLeaves,
                                       layout.key());
    }
    return;
  }
  for (uint32_t r = 0; r < op.max_rows; ++r) {
    const PassRow& row = state->rows[r];
    if (!row_is_active(row)) continue;
    for (uint32_t head = op.first_head; head < head_end; ++head) {
      for (uint32_t leaf = 0; leaf < leaves_for_tokens(row.position + 1); ++leaf) {
        const uint64_t at = layout.row(head / layout.group_heads, layout.split_of(row.slot, leaf), r);
        const uint64_t col = layout.col(leaf, head % layout.group_heads);
        f.read<&AttentionMerge::partial>({at, at + 1, col, col + op.head_dim + PartialLayout::kExtra});
      }
    }
  }
}

inline Cost cost(const AttentionMerge& op, const CostView& c) {
  const uint64_t values = uint64_t{c.pass.rows} * op.num_heads * leaves_for_tokens(c.pass.context_tokens) *
                          (op.head_dim + PartialLayout::kExtra);
  return {.cached_bytes = values * c.element_bytes(op.partial), .operations = 2 * values};
}

inline PageNeed pages(const AttentionMerge&) {
  return {.pinned = 0, .streaming = 0};
}  // leaves go through registers

inline void check(const AttentionMerge& op, OperandCheck& c) {
  c.pass_rows(op.rows, op.max_rows);
  c.require(op.head_dim == 64 || op.head_dim == 128, "head_dim", op.head_dim, "64 or 128");
  c.dimension("kv_heads", op.kv_heads, 1);
  c.dimension("q_heads", op.q_heads, 1);
  c.dimension("splits", op.splits, 1);
  c.limit("max_context", op.max_context, &StateLimits::max_context);
  if (!c.ok()) return;
  c.require(op.q_heads % op.kv_heads == 0, "q_heads", op.q_heads, "a multiple of kv_heads");
  c.range("first_head", op.first_head, op.num_heads, op.q_heads);
  const PartialLayout layout = partial_layout(op);
  c.tensor("partial", op.partial, DType::kF32, TensorKind::kActivation, layout.rows_of_all(op.kv_heads),
           layout.cols(op.max_context));
  c.product_input("output", op.output, op.max_rows, uint64_t{op.q_heads} * op.head_dim);
}

}  // namespace serval
