// Keys and values on their way from the cache to shared memory.
//
// Each warp brings one strip of a leaf, its keys and then its values, in parts of 64 channels. There are
// places for two parts of each strip, so that the next but one is loaded in the place of a part that has been
// used, be it of the same leaf or of the next: memory is busy while the warps compute.
#pragma once

#include "instructions/attention/strip.cuh"

namespace serval::device::attention {

inline constexpr uint32_t kPlaces = 2;

// A leaf, some of its queries, and where this warp's strip of it is.
struct Step {
  Item item;
  uint32_t first_query;
  int32_t block;  // of the strip, in the KV cache

  __device__ __forceinline__ bool none() const { return item.none(); }
  __device__ __forceinline__ bool same_queries(const Step& other) const {
    return item.rows == other.item.rows && first_query == other.first_query;
  }
};

// Goes through the items of an instance, kQueries queries of each at a time.
template <uint32_t kQueries>
class Steps {
 public:
  __device__ __forceinline__ Steps(const Attention& op, const Group& group, const Queries& queries,
                                   uint32_t warp)
      : table_(group.tensor<&Attention::block_table, const int32_t>()),
        blocks_per_sequence_(blocks_for_tokens(op.max_context)),
        queries_(queries),
        warp_(warp),
        items_(op, group) {}

  __device__ __forceinline__ Step first() { return first_of(items_.first()); }
  __device__ __forceinline__ Step after(const Step& step) {
    const uint32_t query = step.first_query + kQueries;
    if (query < queries_.end(static_cast<uint32_t>(__popc(step.item.rows))))
      return {step.item, query, step.block};
    return first_of(items_.after(step.item));
  }

 private:
  __device__ __forceinline__ Step first_of(const Item& item) const {
    if (!item.sees_strip(warp_)) return {item, 0, 0};
    const size_t first = size_t{item.slot} * blocks_per_sequence_ + item.leaf * kLeafBlocks;
    return {item, 0, __ldg(table_ + first + warp_ / kStripsOfBlock)};
  }

  const int32_t* table_;
  uint32_t blocks_per_sequence_;
  Queries queries_;
  uint32_t warp_;
  Items items_;
};

// Parts are counted through a strip's keys and its values.
template <uint32_t kHeadDim, class Place>
class Parts {
 public:
  static constexpr uint32_t kHalves = kHeadDim / kPartChannels;  // parts of the keys, and of the values
  static constexpr uint32_t kCount = 2 * kHalves;

  __device__ __forceinline__ Parts(const Attention& op, const Group& group, Place (&places)[kPlaces][kStrips],
                                   uint32_t warp)
      : op_(op), group_(group), places_(places), warp_(warp) {}

  __device__ __forceinline__ Place& place(uint32_t part, uint32_t strip) const {
    return places_[part % kPlaces][strip];
  }

  __device__ __forceinline__ void load_first(const Step& step) const {
#pragma unroll
    for (uint32_t part = 0; part < kPlaces; ++part) load(step, part);
  }
  // When `part` of `step` has been used.
  __device__ __forceinline__ void load_ahead(const Step& step, const Step& next, uint32_t part) const {
    if (part + kPlaces < kCount) {
      load(step, part + kPlaces);
    } else {
      load(next, part + kPlaces - kCount);
    }
  }
  // Returns when the strip's kReady oldest parts on their way have landed; two are.
  template <uint32_t kReady>
  __device__ __forceinline__ void wait() const {
    tiles::wait_async<kPlaces - kReady>();
  }

 private:
  __device__ __forceinline__ void load(const Step& step, uint32_t part) const {
    if (step.item.sees_strip(warp_)) {
      const auto* cache = part < kHalves ? group_.tensor<&Attention::k_cache, const tiles::Bf16>()
                                         : group_.tensor<&Attention::v_cache, const tiles::Bf16>();
      const uint64_t strip = kv_offset(static_cast<uint64_t>(step.block), op_.kv_head,
                                       warp_ % kStripsOfBlock * kStripTokens, op_.kv_heads, kHeadDim);
      const tiles::GlobalTile<const tiles::Bf16> from{cache + strip + part % kHalves * kPartChannels,
                                                      kHeadDim};
      tiles::load_async(place(part, warp_).part, from, group_.lane);
    }
    tiles::commit_async();
  }

  const Attention& op_;
  const Group& group_;
  Place (&places_)[kPlaces][kStrips];
  uint32_t warp_;
};

}  // namespace serval::device::attention
