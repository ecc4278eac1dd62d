// What an attention instance has to do: its leaves, and the queries of each.
#pragma once

#include <bit>

#include "instructions/attention/op.h"
#include "vm/device/group.cuh"
#include "vm/tiles/types/layout.cuh"

namespace serval::device::attention {

// What is computed at a time: 32 tokens of a leaf.
inline constexpr uint32_t kStripTokens = 32;
inline constexpr uint32_t kStrips = kLeafTokens / kStripTokens;

// One leaf of one slot, for all rows of the pass that belong to the slot: they share its keys and values.
struct Item {
  uint32_t rows;  // bit r: row r of the pass; 0 if there is nothing left to do
  uint32_t slot;
  uint32_t tokens;  // of the sequence that the row sees which sees most
  uint32_t leaf;
  uint32_t done_leaves;  // leaves of the slot that this split has done before

  __device__ __forceinline__ bool none() const { return rows == 0; }
  __device__ __forceinline__ uint32_t begin() const { return leaf * kLeafTokens; }
  // Strips of the leaf that hold a token which some row sees: the first ones.
  __device__ __forceinline__ uint32_t strips() const {
    return (min(tokens - begin(), kLeafTokens) + kStripTokens - 1) / kStripTokens;
  }
  __device__ __forceinline__ bool sees_strip(uint32_t strip) const {
    return begin() + strip * kStripTokens < tokens;
  }
};

// Goes through the items of an instance, slots in order of their first rows. Every warp does so on its own;
// lane r of each holds row r of the pass. All lanes of a warp call each function together.
class Items {
 public:
  __device__ __forceinline__ Items(const Attention& op, const Group& group) : splits_(op.splits) {
    const PassRow& row = group.rows[group.lane % kTableRows];
    const bool active = group.lane < kTableRows && row_is_active(row);
    slot_ = row.slot;
    tokens_ = active ? row.position + 1 : 0;
    const uint32_t turn = slot_ < splits_ ? slot_ : slot_ % splits_;
    first_leaf_ = op.split >= turn ? op.split - turn : op.split + splits_ - turn;
    waiting_ = __ballot_sync(kAllLanes, first_leaf_ * kLeafTokens < tokens_);
  }

  __device__ __forceinline__ Item first() { return next_slot(); }
  // Tokens of the item's sequence that earlier passes have left in the cache: those before its first row.
  __device__ __forceinline__ uint32_t tokens_before(const Item& item) const {
    const bool mine = tokens_ != 0 && slot_ == item.slot;
    return __reduce_min_sync(kAllLanes, mine ? tokens_ - 1 : ~0u);
  }
  __device__ __forceinline__ Item after(Item item) {
    item.leaf += splits_;
    ++item.done_leaves;
    return item.begin() < item.tokens ? item : next_slot();
  }

 private:
  __device__ __forceinline__ Item next_slot() {
    if (waiting_ == 0) return {};
    const int lead = __ffs(static_cast<int>(waiting_)) - 1;
    const uint32_t slot = __shfl_sync(kAllLanes, slot_, lead);
    const bool mine = tokens_ != 0 && slot_ == slot;
    const uint32_t rows = __ballot_sync(kAllLanes, mine);
    waiting_ &= ~rows;
    return {rows, slot, __reduce_max_sync(kAllLanes, mine ? tokens_ : 0),
            __shfl_sync(kAllLanes, first_leaf_, lead), 0};
  }

  uint32_t splits_;      // of the instance
  uint32_t slot_;        // of the lane's row
  uint32_t tokens_;      // that it sees; 0 if it is not active
  uint32_t first_leaf_;  // of its slot that belongs to the instance
  uint32_t waiting_;     // rows that see this leaf and whose slot has not been begun
};

// Query n of an item is head n mod (heads of the group, rounded up to a power of two) of a row, rows one
// after the other: places that are no head are no queries.
class Queries {
 public:
  __device__ __forceinline__ explicit Queries(const Attention& op)
      : heads_(op.q_heads / op.kv_heads), log2_places_(static_cast<uint32_t>(std::bit_width(heads_ - 1))) {}

  // A query; if there is none, row and head are some that exist.
  struct Query {
    uint32_t row;   // of the pass
    uint32_t head;  // of the group
    bool exists;
  };

  __device__ __forceinline__ PartialLayout layout(const Attention& op, uint32_t head_dim) const {
    return {op.splits, heads_, head_dim, kTableRows};
  }
  // Where a query is among all heads of all rows.
  __device__ __forceinline__ uint64_t vector(const Attention& op, const Query& query) const {
    return uint64_t{query.row} * op.q_heads + op.kv_head * heads_ + query.head;
  }
  // Where its result goes for the slot's first leaf.
  __device__ __forceinline__ float* place(const Attention& op, const Group& group, uint32_t head_dim,
                                          const Query& query) const {
    const PartialLayout partial = layout(op, head_dim);
    return group.tensor<&Attention::partial, float>() +
           partial.row(op.kv_head, op.split, query.row) * partial.cols(op.max_context) +
           partial.col(0, query.head);
  }
  // No query of so many rows is this one or a later.
  __device__ __forceinline__ uint32_t end(uint32_t rows) const { return rows << log2_places_; }
  __device__ __forceinline__ Query at(const Item& item, uint32_t n) const {
    const uint32_t head = n & ((1u << log2_places_) - 1);
    uint32_t rows = item.rows;
#pragma unroll 1
    for (uint32_t skip = n >> log2_places_; skip > 0; --skip) rows &= rows - 1;
    if (head >= heads_ || rows == 0) return {0, 0, false};
    return {static_cast<uint32_t>(__ffs(static_cast<int>(rows)) - 1), head, true};
  }

 private:
  uint32_t heads_;
  uint32_t log2_places_;
};

// The most rows of the pass that belong to one slot.
__device__ __forceinline__ uint32_t most_rows_of_a_slot(const Group& group) {
  const PassRow& row = group.rows[group.lane % kTableRows];
  const bool active = group.lane < kTableRows && row_is_active(row);
  const uint32_t rows = __ballot_sync(kAllLanes, active);
  if (__popc(rows) < 2) return 1;
  constexpr uint32_t kNoSlot = kLargestSequences;
  const uint32_t same = __match_any_sync(kAllLanes, active ? row.slot : kNoSlot + group.lane);
  return __reduce_max_sync(kAllLanes, static_cast<uint32_t>(__popc(same)));
}

}  // namespace serval::device::attention
