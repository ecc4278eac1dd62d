// Merges the partial results of a row and KV head that several items share (vm/state/attention.h): first the
// result of the first item, then leaf by leaf in order of position. Records take turns at the splits' rows.
#pragma once

#include <array>

#include "instructions/common/kernel_set.h"
#include "instructions/planned_attention/op.h"

namespace serval {

struct PlannedMerge {
  static constexpr bool kOneOfEachSm = true;  // `record` is the number of the SM

  TensorId partial;
  TensorId rows;
  TensorId items;
  TensorId output;
  uint32_t record;
  uint32_t records;
  uint32_t places;

  static constexpr KernelSet kKernels = {.vectors = false};

  static constexpr std::array kWindows = {&PlannedMerge::record};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&PlannedMerge::partial, "partial", "in [places, place_cols] f32: PlaceLayout");
    v(&PlannedMerge::rows, "rows", "in: the pass's rows");
    v(&PlannedMerge::items, "items", "in: the state's AttentionList");
    v(&PlannedMerge::output, "output", "out [max_rows, q_heads * head_dim] bf16 or f16");
    v(&PlannedMerge::record, "record", "record of the list");
    v(&PlannedMerge::records, "records", "records: the machine's SMs");
    v(&PlannedMerge::places, "places", "places for partial results");
  }
};

// One row of a split, in a pass.
struct SplitRow {
  uint32_t row;     // of the pass
  uint32_t head;    // KV head
  uint32_t place;   // of the first item's merged result; its leaves follow
  uint32_t leaves;  // leaves after it
};

// Index of the split that the list's `n`-th split row belongs to, below list.splits.
constexpr uint32_t split_of(const AttentionList& list, uint32_t n) {
  uint32_t begin = 0, end = list.splits < kMostAttentionSplits ? list.splits : kMostAttentionSplits;
  while (begin + 1 < end) {
    const uint32_t middle = (begin + end) / 2;
    (list.split[middle].rows_before <= n ? begin : end) = middle;
  }
  return begin;
}
// Row `i` of a split.
constexpr SplitRow split_row(const AttentionSplit& split, uint32_t i, const PassRow& row) {
  const uint32_t leaves = planned_leaves(row.position + 1);
  return {split.first_row + i, split.head, split.first_place + i * split.row_places,
          leaves > split.prefix_leaves ? leaves - split.prefix_leaves : 0};
}
template <class Op>
constexpr bool in_bounds(const Op& op, const HeadShape& heads, const SplitRow& row) {
  return row.head < heads.kv_heads && row.place < op.places && row.leaves < op.places - row.place;
}
// Calls fn(row) for the record's active rows.
template <class Op, class Fn>
void for_split_rows(const Op& op, const ProgramShape& shape, const AttentionList& list, const PassRow* rows,
                    Fn&& fn) {
  if (op.record >= list.records || list.records != op.records || list.splits == 0) return;
  for (uint32_t n = op.record; n < list.split_rows; n += op.records) {
    const AttentionSplit& split = list.split[split_of(list, n)];
    const uint32_t r = split.first_row + (n - split.rows_before);
    if (r >= shape.limits.rows || !row_is_active(rows[r])) continue;
    const SplitRow row = split_row(split, n - split.rows_before, rows[r]);
    if (in_bounds(op, shape.heads, row)) fn(row);
  }
}

inline void footprint(const PlannedMerge& op, const StateView* state, FootprintBuilder<PlannedMerge>& f) {
  const HeadShape& heads = f.shape().heads;
  const StateLimits& limits = f.shape().limits;
  using Op = PlannedMerge;
  const PlaceLayout layout = place_layout(heads);
  const uint64_t group_cols = uint64_t{layout.group_heads} * heads.head_dim;
  f.pass_rows<&Op::rows>();
  f.read<&Op::items>({0, 1, 0, attention_list_bytes(limits.rows)});
  if (state == nullptr) {
    f.read<&Op::partial>({0, op.places, 0, layout.cols()}, Part::kItemPlaces, op.records);
    f.write_share<&Op::output>({0, limits.rows, 0, heads.kv_heads * group_cols}, Part::kSplitRows, op.records,
                               op.record);
    return;
  }
  if (state->attention == nullptr) return;
  for_split_rows(op, f.shape(), *state->attention, state->rows, [&](const SplitRow& row) {
    f.read<&Op::partial>({row.place, uint64_t{row.place} + 1 + row.leaves, 0, layout.cols()});
    f.write<&Op::output>(
        {row.row, uint64_t{row.row} + 1, row.head * group_cols, (row.head + 1) * group_cols});
  });
}

// Cost in a typical pass, which splits few rows.
inline Cost cost(const PlannedMerge& op, const CostView& c) {
  const uint64_t values = planned_leaves(c.pass.context_tokens) * place_layout(c.shape.heads).cols();
  return {.cached_bytes = values * c.element_bytes(op.partial), .operations = 2 * values};
}

inline PageNeed pages(const PlannedMerge&) {
  return {.pinned = 0, .streaming = 0};  // leaves go through registers
}

inline void check(const PlannedMerge& op, OperandCheck& c) {
  check_planned(op, c);
}

}  // namespace serval
