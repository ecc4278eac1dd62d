// The work items of an attention instance: its leaves, and the queries of each.
#pragma once

#include <bit>

#include "instructions/attention/op.h"
#include "vm/device/group.cuh"
#include "vm/tiles/types/layout.cuh"

namespace serval::device::attention {

// Tokens of a strip: the part of a leaf that a warp multiplies at a time.
inline constexpr uint32_t kStripTokens = 32;
inline constexpr uint32_t kStrips = kLeafTokens / kStripTokens;

// One leaf of one slot, for all rows of the pass that belong to the slot: they share its keys and values.
struct Item {
  uint32_t rows;  // bit r: row r of the pass; 0: no item left
  uint32_t slot;
  uint32_t tokens;  // tokens that the slot's row with the highest position sees
  uint32_t leaf;
  uint32_t done_leaves;  // leaves of the slot that this split has already done

  __device__ __forceinline__ bool none() const { return rows == 0; }
  __device__ __forceinline__ uint32_t begin() const { return leaf * kLeafTokens; }
  // Number of strips, from the first, that contain a token which some row sees.
  __device__ __forceinline__ uint32_t strips() const {
    return (min(tokens - begin(), kLeafTokens) + kStripTokens - 1) / kStripTokens;
  }
  __device__ __forceinline__ bool sees_strip(uint32_t strip) const {
    return begin() + strip * kStripTokens < tokens;
  }
};

// Iterates over the items of an instance, slots in the order of their first rows. Every warp iterates on its
// own; its lane r holds row r of the pass. All lanes of a warp call each function together.
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
  // Tokens of the item's sequence that earlier passes left in the cache: those before its first row.
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
  uint32_t tokens_;      // tokens that the row sees; 0 if it is not active
  uint32_t first_leaf_;  // the slot's first leaf that belongs to the instance
  uint32_t waiting_;     // rows that see first_leaf_ and whose slot has not been started
};

// Query n of an item is head n mod H of the item's row n / H, where H is the group's number of heads rounded
// up to a power of two. Numbers without a head are not queries.
class Queries {
 public:
  __device__ __forceinline__ explicit Queries(const Group& group)
      : heads_(group.shape.heads.group_heads()),
        log2_places_(static_cast<uint32_t>(std::bit_width(heads_ - 1))) {}

  // A query. If exists is false, row and head are valid indices all the same.
  struct Query {
    uint32_t row;   // of the pass
    uint32_t head;  // of the group
    bool exists;
  };

  __device__ __forceinline__ PartialLayout layout(const Attention& op, uint32_t head_dim) const {
    return {op.splits, heads_, head_dim, kTableRows};
  }
  // Index of a query's vector among all heads of all rows.
  __device__ __forceinline__ uint64_t vector(const Attention& op, const Group& group,
                                             const Query& query) const {
    return uint64_t{query.row} * group.shape.heads.q_heads + op.kv_head * heads_ + query.head;
  }
  // Address of its result for the slot's first leaf.
  __device__ __forceinline__ float* place(const Attention& op, const Group& group, uint32_t head_dim,
                                          const Query& query) const {
    const PartialLayout partial = layout(op, head_dim);
    return group.tensor<&Attention::partial, float>() +
           partial.row(op.kv_head, op.split, query.row) * partial.cols(group.shape.limits.max_context) +
           partial.col(0, query.head);
  }
  // Query numbers of `rows` rows are below this.
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

// Largest number of rows of the pass that belong to one slot.
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
