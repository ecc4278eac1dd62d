// The list of attention's work, a part of the state block: how programs of more than kRowTile rows deal the
// keys that a launch's rows see to their attention records. The host plans it before a launch
// (instructions/planned_attention/plan.h); nothing writes it within one.
//
// An item is what one record does at a time: consecutive rows of a pass that belong to one sequence, some KV
// heads, and a range of leaves. Positions are read from the pass's rows, so an item that goes on to the end
// of its sequence holds in every pass of a launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/machine.h"

namespace serval {

// Of this attention, whose sums are added in an order of its own (docs/architecture.md).
inline constexpr uint32_t kPlannedLeafTokens = 2048;
constexpr uint32_t planned_leaves(uint32_t tokens) {
  return (tokens + kPlannedLeafTokens - 1) / kPlannedLeafTokens;
}
// A sequence of at most so many tokens has one leaf, which no two items share: there is nothing to merge.
constexpr bool attention_is_whole(uint32_t max_context) {
  return planned_leaves(max_context) <= 1;
}

// Places for partial results: of one row, KV head and leaf, or of all leaves before the first that another
// item has.
inline constexpr uint32_t kAttentionPlaces = 16384;
inline constexpr uint32_t kNoPlace = 0xffffffff;
// end_leaf of an item that has all leaves of its rows, however many they get. Where leaves are split, the
// last item ends with the last leaf that its rows may see in the launch.
inline constexpr uint32_t kToTheEnd = 0xffffffff;

struct AttentionItem {
  uint32_t slot = 0;
  uint32_t first_row = 0;  // of the pass
  uint32_t rows = 0;
  uint32_t first_head = 0;  // KV heads
  uint32_t heads = 0;       // 1 where results are partial
  uint32_t first_leaf = 0;
  uint32_t end_leaf = kToTheEnd;
  uint32_t first_place = kNoPlace;  // of the first row's first leaf; kNoPlace: all leaves are this item's
  uint32_t row_places = 0;          // from a row's places to the next row's
  uint32_t reserved[3] = {};
};
static_assert(sizeof(AttentionItem) == 48);

// Rows of one KV head of which several items have leaves. Of each row, the first place is for the leaves
// before `prefix_leaves`, which one item has; every further leaf has a place of its own.
struct AttentionSplit {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint32_t head = 0;
  uint32_t prefix_leaves = 0;
  uint32_t first_place = 0;
  uint32_t row_places = 0;
  uint32_t rows_before = 0;  // of the splits before this one in the list
  uint32_t reserved = 0;
};
static_assert(sizeof(AttentionSplit) == 32);

inline constexpr uint32_t kMostAttentionSplits = 1024;
// Of a program of so many rows: an item a row always suffices; the others are there to balance.
constexpr uint32_t attention_items(uint32_t rows) {
  return rows + 4096;
}

// As it lies in memory; the items follow. Record r of `records` has the items [begin[r], begin[r + 1]), and
// of the splits' rows, counted through, r, r + records, …
struct AttentionList {
  uint32_t records = 0;
  uint32_t items = 0;
  uint32_t splits = 0;
  uint32_t split_rows = 0;
  uint32_t begin[kMaxSms + 4] = {};
  AttentionSplit split[kMostAttentionSplits] = {};

  const AttentionItem* item() const { return reinterpret_cast<const AttentionItem*>(this + 1); }
  AttentionItem* item() { return reinterpret_cast<AttentionItem*>(this + 1); }
};
static_assert(sizeof(AttentionList) % 16 == 0);

constexpr size_t attention_list_bytes(uint32_t rows) {
  return sizeof(AttentionList) + attention_items(rows) * sizeof(AttentionItem);
}

}  // namespace serval
