// Attention over the paged KV cache for passes of many rows, for the items that the state's list assigns to
// this record (vm/state/attention.h).
//
// A query's keys are divided into leaves of kPlannedLeafTokens tokens, a leaf into the cache's blocks of 64.
// In a leaf, softmax is computed block by block: m = the largest score so far, l and o = the sums of
// exp(score - m) and of bf16(exp(score - m)) × V, both rescaled when m grows. Leaves are merged one after the
// other (merge() in sums.h). Both orders follow the positions: the assignment of rows and leaves to records
// changes no bit.
//
// An item that has all leaves of its rows writes their output. Otherwise the item with the first leaf writes
// its leaves' merged result, other items write each leaf, with m in units of log2, and planned_merge merges
// these.
#pragma once

#include <algorithm>
#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "vm/state/attention.h"

namespace serval {

// Query heads that fit into a narrow tile of the GPU's kernels.
inline constexpr uint32_t kNarrowQueries = 8;

struct PlannedAttention {
  static constexpr bool kOneOfEachSm = true;  // `record` is the number of the SM

  TensorId q;
  TensorId k_cache;
  TensorId v_cache;
  TensorId rows;
  TensorId block_table;
  TensorId items;
  TensorId partial;
  TensorId output;
  uint32_t record;
  uint32_t records;
  uint32_t places;
  float scale;

  static constexpr std::array kBoxedCaches = {&PlannedAttention::k_cache, &PlannedAttention::v_cache};
  static constexpr auto kBoxedQueries = &PlannedAttention::q;
  static constexpr KernelSet kKernels = {.vectors = false};

  static constexpr std::array kWindows = {&PlannedAttention::record};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&PlannedAttention::q, "q", "in [max_rows, q_heads * head_dim] bf16");
    v(&PlannedAttention::k_cache, "k_cache", "in [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&PlannedAttention::v_cache, "v_cache", "in [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&PlannedAttention::rows, "rows", "in: the pass's rows");
    v(&PlannedAttention::block_table, "block_table", "in [max_sequences, blocks of a sequence] i32");
    v(&PlannedAttention::items, "items", "in: the state's AttentionList");
    v(&PlannedAttention::partial, "partial", "out [places, place_cols] f32: PlaceLayout");
    v(&PlannedAttention::output, "output", "out [max_rows, q_heads * head_dim] bf16 or f16");
    v(&PlannedAttention::record, "record", "record of the list");
    v(&PlannedAttention::records, "records", "records: the machine's SMs");
    v(&PlannedAttention::places, "places", "places for partial results");
    v(&PlannedAttention::scale, "scale", "of the scores: 1 / sqrt(head_dim)");
  }
};

// A place for partial results: for each query head of the group head_dim sums, then m, then l.
struct PlaceLayout {
  uint32_t group_heads;  // query heads of a KV head
  uint32_t head_dim;

  static constexpr uint32_t kExtra = 2;  // m and l
  constexpr uint32_t head_cols() const { return head_dim + kExtra; }
  constexpr uint64_t cols() const { return uint64_t{group_heads} * head_cols(); }
};
constexpr PlaceLayout place_layout(const HeadShape& heads) {
  return {heads.group_heads(), heads.head_dim};
}

// The leaves [first, end) of an item that a row sees in a pass; empty if it sees none.
struct RowLeaves {
  uint32_t first, end;
  constexpr bool none() const { return first >= end; }
  // Places that the row writes, from place_of_row() on.
  constexpr uint32_t places(const AttentionItem& item) const {
    return item.first_leaf == 0 ? 1 : end - first;
  }
};
constexpr RowLeaves row_leaves(const AttentionItem& item, const PassRow& row) {
  if (!row_is_active(row) || row.slot != item.slot) return {0, 0};
  const uint32_t leaves = planned_leaves(row.position + 1);
  return {item.first_leaf, item.end_leaf < leaves ? item.end_leaf : leaves};
}
constexpr uint32_t place_of_row(const AttentionItem& item, uint32_t i) {
  return item.first_place + i * item.row_places;
}
// True if the item lies inside the operation's tensors; other items are skipped.
template <class Op>
constexpr bool in_bounds(const Op& op, const ProgramShape& shape, const AttentionItem& item) {
  const StateLimits& limits = shape.limits;
  const uint32_t kv_heads = shape.heads.kv_heads;
  const bool rows = item.rows <= limits.rows && item.first_row <= limits.rows - item.rows;
  const bool heads = item.heads <= kv_heads && item.first_head <= kv_heads - item.heads;
  const uint32_t all_leaves = planned_leaves(limits.max_context);
  const uint32_t end_leaf = item.end_leaf < all_leaves ? item.end_leaf : all_leaves;
  if (!rows || !heads || item.rows == 0 || item.first_leaf >= end_leaf) return false;
  const uint64_t places =
      uint64_t{item.rows - 1} * item.row_places + (item.first_leaf == 0 ? 1 : end_leaf - item.first_leaf);
  const bool in_places = item.first_place == kNoPlace || item.first_place + places <= op.places;
  return in_places && item.slot < limits.sequences;
}
// Calls fn(item) for the record's items.
template <class Op, class Fn>
void for_items(const Op& op, const ProgramShape& shape, const AttentionList& list, Fn&& fn) {
  if (op.record >= list.records || list.records != op.records) return;
  const uint32_t end = std::min(list.begin[op.record + 1], attention_items(shape.limits.rows));
  for (uint32_t i = list.begin[op.record]; i < end; ++i) {
    if (in_bounds(op, shape, list.item()[i])) fn(list.item()[i]);
  }
}

inline void footprint(const PlannedAttention& op, const StateView* state,
                      FootprintBuilder<PlannedAttention>& f) {
  const HeadShape& heads = f.shape().heads;
  const StateLimits& limits = f.shape().limits;
  using Op = PlannedAttention;
  const PlaceLayout layout = place_layout(heads);
  const uint64_t head_rows = heads.head_dim, group_cols = uint64_t{layout.group_heads} * heads.head_dim;
  const uint64_t all_tokens = uint64_t{limits.kv_blocks} * kKvBlockTokens;
  f.pass_rows<&Op::rows>();
  f.read<&Op::block_table>({0, limits.sequences, 0, blocks_for_tokens(limits.max_context)});
  f.read<&Op::items>({0, 1, 0, attention_list_bytes(limits.rows)});
  if (state == nullptr) {
    f.read_rows<&Op::q>(RowSet::kActive, 0, heads.kv_heads * group_cols);
    f.read<&Op::k_cache>({0, heads.kv_heads * head_rows, 0, all_tokens});
    f.read<&Op::v_cache>({0, heads.kv_heads * head_rows, 0, all_tokens});
    f.write_share<&Op::partial>({0, op.places, 0, layout.cols()}, Part::kItemPlaces, op.records, op.record);
    const Part rows = attention_is_whole(limits.max_context) ? Part::kDividedRows : Part::kItemRows;
    f.write_share<&Op::output>({0, limits.rows, 0, heads.kv_heads * group_cols}, rows, op.records, op.record);
    return;
  }
  if (state->attention == nullptr) return;
  for_items(op, f.shape(), *state->attention, [&](const AttentionItem& item) {
    const uint64_t head_end = item.first_head + item.heads;
    const Box cols{0, 0, item.first_head * group_cols, head_end * group_cols};
    uint32_t tokens = 0;  // end of the tokens that the item reads
    for (uint32_t i = 0; i < item.rows; ++i) {
      const uint64_t r = item.first_row + i;
      const RowLeaves leaves = row_leaves(item, state->rows[r]);
      if (leaves.none()) continue;
      tokens = std::max(tokens, std::min(state->rows[r].position + 1, leaves.end * kPlannedLeafTokens));
      f.read<&Op::q>({r, r + 1, cols.col_begin, cols.col_end});
      if (item.first_place == kNoPlace) {
        f.write<&Op::output>({r, r + 1, cols.col_begin, cols.col_end});
      } else {
        const uint64_t place = place_of_row(item, i);
        f.write<&Op::partial>({place, place + leaves.places(item), 0, layout.cols()});
      }
    }
    const uint64_t k_begin = item.first_head * head_rows, k_end = head_end * head_rows;
    for (uint32_t t = item.first_leaf * kPlannedLeafTokens; t < tokens; t += kKvBlockTokens) {
      const uint64_t entry = uint64_t{item.slot} * state->blocks_per_sequence + t / kKvBlockTokens;
      const uint64_t begin = static_cast<uint64_t>(state->block_table[entry]) * kKvBlockTokens;
      const uint64_t end = begin + std::min(tokens - t, kKvBlockTokens);
      f.read<&Op::k_cache>({k_begin, k_end, begin, end});
      f.read<&Op::v_cache>({k_begin, k_end, begin, end});
    }
  });
}

inline Cost cost(const PlannedAttention& op, const CostView& c) {
  const HeadShape& heads = c.shape.heads;
  const uint64_t keys =
      uint64_t{c.pass.rows} * c.pass.context_tokens * heads.kv_heads * heads.head_dim / op.records;
  return {.bytes = 2 * keys * c.element_bytes(op.k_cache), .operations = 4 * keys * heads.group_heads()};
}

inline PageNeed pages(const PlannedAttention&) {
  return {.pinned = 0, .streaming = 0};  // scratch memory suffices
}

// Checks the operands that attention and its merge share.
template <class Op>
void check_planned(const Op& op, OperandCheck& c) {
  const HeadShape& heads = c.shape().heads;
  const StateLimits& limits = c.shape().limits;
  c.pass_rows(op.rows);
  c.records(op.record, op.records);
  c.heads();
  c.dimension("places", op.places, 1);
  if (!c.ok()) return;
  constexpr uint32_t kMostGroupHeads = 64;  // the rows of a tile on the tensor cores
  c.require(heads.group_heads() <= kMostGroupHeads, "q_heads", heads.q_heads,
            "up to 64 times as many as kv_heads");
  c.tensor("items", op.items, DType::kBytes, TensorKind::kState, 1, attention_list_bytes(limits.rows));
  c.tensor("partial", op.partial, DType::kF32, TensorKind::kActivation, op.places,
           place_layout(heads).cols());
  c.product_input("output", op.output, heads.q_cols());
}

inline void check(const PlannedAttention& op, OperandCheck& c) {
  c.positive("scale", op.scale);
  check_planned(op, c);
  if (!c.ok()) return;
  c.activation("q", op.q, DType::kBF16, c.shape().heads.q_cols());
  c.kv_cache("k_cache", op.k_cache);
  c.kv_cache("v_cache", op.v_cache);
  c.block_table(op.block_table);
}

}  // namespace serval
