// What an attention instance has to do: its leaves, and the queries of each.
#pragma once

#include <bit>

#include "instructions/attention/op.h"
#include "vm/device/group.cuh"

namespace serval::device::attention {

inline constexpr uint32_t kAllLanes = 0xffffffff;

// One leaf of one slot, for all rows of the pass that belong to the slot: they share its keys and values.
struct Item {
  uint32_t rows;  // bit r: row r of the pass; 0 if there is nothing left to do
  uint32_t slot;
  uint32_t tokens;  // of the sequence that the row sees which sees most
  uint32_t leaf;
  uint32_t round;  // leaves of the slot that this lane has done before

  __device__ __forceinline__ bool none() const { return rows == 0; }
  __device__ __forceinline__ uint32_t begin() const { return leaf * kLeafTokens; }
  // Tokens of the leaf that some row sees.
  __device__ __forceinline__ uint32_t visible() const { return min(tokens - begin(), kLeafTokens); }
};

// Goes through the items of an instance, slots in order of their first rows. Every warp does so on its own;
// lane r of each holds row r of the pass. All lanes of a warp call each function together.
class Items {
 public:
  __device__ __forceinline__ Items(const Attention& op, const Group& group)
      : rows_(group.rows), lane_(op.lane), lanes_(op.lanes) {
    const PassRow& row = rows_[group.lane % kMaxRows];
    const bool active = group.lane < kMaxRows && row_is_active(row);
    slot_ = row.slot;
    tokens_ = active ? row.position + 1 : 0;
    unvisited_ = __ballot_sync(kAllLanes, active);
  }

  __device__ __forceinline__ Item first() { return leaf_or_next_slot({}); }
  __device__ __forceinline__ Item after(Item item) {
    item.leaf += lanes_;
    ++item.round;
    return leaf_or_next_slot(item);
  }

 private:
  __device__ __forceinline__ Item leaf_or_next_slot(Item item) {
#pragma unroll 1
    while (item.begin() >= item.tokens) {
      if (unvisited_ == 0) return {};
      item = first_of_slot(rows_[__ffs(static_cast<int>(unvisited_)) - 1].slot);
    }
    return item;
  }
  __device__ __forceinline__ Item first_of_slot(uint32_t slot) {
    const bool mine = tokens_ != 0 && slot_ == slot;
    const uint32_t rows = __ballot_sync(kAllLanes, mine);
    unvisited_ &= ~rows;
    return {rows, slot, __reduce_max_sync(kAllLanes, mine ? tokens_ : 0), first_leaf_of(slot), 0};
  }
  // first_leaf() without its divisions, which would delay the first load.
  __device__ __forceinline__ uint32_t first_leaf_of(uint32_t slot) const {
#pragma unroll 1
    while (slot >= lanes_) slot -= lanes_;
    return lane_ >= slot ? lane_ - slot : lane_ + lanes_ - slot;
  }

  const PassRow* rows_;
  uint32_t lane_, lanes_;  // of the instance
  uint32_t slot_, tokens_;
  uint32_t unvisited_;  // rows whose slot has not been begun
};

// Query n of an item is head n mod (heads of the group, rounded up to a power of two) of its n-th row:
// positions that are no head, and rows beyond the last, are no queries.
class Queries {
 public:
  __device__ __forceinline__ explicit Queries(const Attention& op)
      : heads_(op.q_heads / op.kv_heads), log2_places_(static_cast<uint32_t>(std::bit_width(heads_ - 1))) {}

  // A query, or none.
  struct Query {
    uint32_t row;   // of the pass
    uint32_t head;  // of the group
    bool exists;
  };

  __device__ __forceinline__ uint32_t heads() const { return heads_; }
  // Places for queries: one more than the last query's at least.
  __device__ __forceinline__ uint32_t places(const Item& item) const {
    return static_cast<uint32_t>(__popc(item.rows)) << log2_places_;
  }
  __device__ __forceinline__ Query at(const Item& item, uint32_t n) const {
    const uint32_t head = n & ((1u << log2_places_) - 1);
    uint32_t rows = item.rows;
#pragma unroll 1
    for (uint32_t skip = n >> log2_places_; skip > 0; --skip) rows &= rows - 1;
    return {static_cast<uint32_t>(__ffs(static_cast<int>(rows)) - 1), head, head < heads_ && rows != 0};
  }

 private:
  uint32_t heads_;
  uint32_t log2_places_;
};

}  // namespace serval::device::attention
