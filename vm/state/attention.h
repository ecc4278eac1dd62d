// The attention list, a part of the state block: how programs of more than kRowTile rows divide the keys that
// a launch's rows see among their attention records. The host plans it before a launch
// (instructions/planned_attention/plan.h); nothing writes it during a launch.
//
// An item is what one record processes at a time: consecutive rows of a pass that belong to one sequence,
// some KV heads, and a range of leaves. Positions are read from the pass's rows, so an item that extends to
// the end of its sequence is valid in every pass of a launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/machine.h"

namespace serval {

// Tokens of a leaf in planned attention, which adds its sums in an order of its own (docs/architecture.md).
inline constexpr uint32_t kPlannedLeafTokens = 2048;
constexpr uint32_t planned_leaves(uint32_t tokens) {
  return (tokens + kPlannedLeafTokens - 1) / kPlannedLeafTokens;
}
// True if a sequence of at most max_context tokens has only one leaf: no two items share it, so nothing is
// merged.
constexpr bool attention_is_whole(uint32_t max_context) {
  return planned_leaves(max_context) <= 1;
}

// Number of places for partial results. A place is for one row and KV head, and either for one leaf or for
// all leaves of the first item.
inline constexpr uint32_t kAttentionPlaces = 16384;
inline constexpr uint32_t kNoPlace = 0xffffffff;
// end_leaf of an item that has all leaves of its rows, however many they become. If leaves are split, the
// last item ends with the last leaf that its rows may see in the launch.
inline constexpr uint32_t kToTheEnd = 0xffffffff;

struct AttentionItem {
  uint32_t slot = 0;
  uint32_t first_row = 0;  // of the pass
  uint32_t rows = 0;
  uint32_t first_head = 0;  // KV heads
  uint32_t heads = 0;       // 1 if results are partial
  uint32_t first_leaf = 0;
  uint32_t end_leaf = kToTheEnd;
  uint32_t first_place = kNoPlace;  // of the first row's first leaf; kNoPlace: the item has all leaves
  uint32_t row_places = 0;          // distance from a row's places to the next row's
  uint32_t reserved[3] = {};
};
static_assert(sizeof(AttentionItem) == 48);

// Rows of one KV head whose leaves are split among several items. A row's first place is for the leaves
// before `prefix_leaves`, which belong to one item; each later leaf has its own place.
struct AttentionSplit {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint32_t head = 0;
  uint32_t prefix_leaves = 0;
  uint32_t first_place = 0;
  uint32_t row_places = 0;
  uint32_t rows_before = 0;  // rows of the splits before this one in the list
  uint32_t reserved = 0;
};
static_assert(sizeof(AttentionSplit) == 32);

inline constexpr uint32_t kMostAttentionSplits = 1024;
// Items of a program with `rows` rows: one item a row always suffices; the others are for load balance.
constexpr uint32_t attention_items(uint32_t rows) {
  return rows + 4096;
}

// The list in memory; the items follow it. Record r of `records` has the items [begin[r], begin[r + 1]), and
// the split rows r, r + records, … (numbered through all splits).
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
