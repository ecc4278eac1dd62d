// Loads of keys and values from the cache: each warp loads one strip of a leaf, in KV tiles of 64 channels.
// While the warps compute, the next tiles are in flight, of the same leaf or the next one.
#pragma once

#include "instructions/attention/strip.cuh"

namespace serval::device::attention {

// A leaf, some of its queries, and the KV block of this warp's strip.
struct Step {
  Item item;
  uint32_t first_query;
  int32_t block;  // KV block of the strip

  __device__ __forceinline__ bool none() const { return item.none(); }
  __device__ __forceinline__ bool same_leaf(const Step& other) const {
    return item.rows == other.item.rows && item.leaf == other.item.leaf;
  }
  __device__ __forceinline__ bool same_queries(const Step& other) const {
    return item.rows == other.item.rows && first_query == other.first_query;
  }
};

// Iterates over the items of an instance, kQueries queries of each at a time.
template <uint32_t kQueries>
class Steps {
 public:
  __device__ __forceinline__ Steps(const Attention& op, const Group& group, const Queries& queries,
                                   uint32_t warp)
      : table_(group.tensor<&Attention::block_table, const int32_t>()),
        blocks_per_sequence_(blocks_for_tokens(group.shape.limits.max_context)),
        queries_(queries),
        warp_(warp),
        items_(op, group) {}

  __device__ __forceinline__ Step first() { return first_of(items_.first()); }
  __device__ __forceinline__ Step after(const Step& step) {
    if (step.none()) return step;
    const uint32_t query = step.first_query + kQueries;
    if (query < queries_.end(static_cast<uint32_t>(__popc(step.item.rows))))
      return {step.item, query, step.block};
    return first_of(items_.after(step.item));
  }
  __device__ __forceinline__ uint32_t tokens_before(const Step& step) const {
    return items_.tokens_before(step.item);
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

// The strip of a leaf that a warp loads, and its source.
struct Source {
  const Attention& op;
  const Group& group;
  uint32_t warp;

  // Number of rows of the strip with tokens before `end`.
  __device__ __forceinline__ uint32_t rows_before(const Item& item, uint32_t end) const {
    const uint32_t begin = item.begin() + warp * kStripTokens;
    return end <= begin ? 0 : min(end - begin, kStripTokens);
  }
  __device__ __forceinline__ uint32_t rows(const Item& item) const { return rows_before(item, item.tokens); }
  __device__ __forceinline__ const tiles::Bf16* keys() const {
    return group.tensor<&Attention::k_cache, const tiles::Bf16>();
  }
  __device__ __forceinline__ const tiles::Bf16* values() const {
    return group.tensor<&Attention::v_cache, const tiles::Bf16>();
  }
  // Offset of the strip's first row in a cache.
  template <uint32_t kHeadDim>
  __device__ __forceinline__ uint64_t offset(const Step& step) const {
    return kv_offset(static_cast<uint64_t>(step.block), op.kv_head, warp % kStripsOfBlock * kStripTokens,
                     group.shape.heads.kv_heads, kHeadDim);
  }
};

// The keys of the warp's strip in registers, for heads of 64 channels: there are not enough registers for
// more.
class RegisterKeys {
 public:
  // Loads rows `begin` to `end` - 1; the others stay unchanged.
  __device__ __forceinline__ void load(const Source& source, const Step& step, uint32_t begin, uint32_t end) {
    if (begin == end) return;
    const uint32_t lane = source.group.lane;
    const uint32_t row_of_lane = lane / tiles::kPairLanes;
    const auto* first =
        source.keys() + source.template offset<kKvTileChannels>(step) + row_of_lane * kKvTileChannels;
#pragma unroll
    for (uint32_t e = 0; e < kStripTokens / kFragmentQueries; ++e) {
      const uint32_t row = e * kFragmentQueries + row_of_lane;
      if (row < begin || row >= end) continue;
      tiles::load_terms<tiles::Coherence::kGpu>(tile_, e, first + e * kFragmentQueries * kKvTileChannels,
                                                lane);
    }
  }
  __device__ __forceinline__ const Keys& tile() const {
    return tile_;
  }

 private:
  Keys tile_ = {};
};

// KV tiles in shared memory: the values of the warp's strip, or its keys and then its values. With kKvBuffers
// buffers for each strip, a tile is loaded into the buffer of the tile kKvBuffers before it, once that tile
// has been used.
template <uint32_t kHeadDim, bool kWithKeysOf, uint32_t kKvBuffersOf>
class KvTiles {
 public:
  static constexpr bool kWithKeys = kWithKeysOf;
  static constexpr uint32_t kKvBuffers = kKvBuffersOf;
  static constexpr uint32_t kHeadTiles = kHeadDim / kKvTileChannels;
  static constexpr uint32_t kCount = (kWithKeys ? 2 : 1) * kHeadTiles;  // tiles of a step
  static constexpr uint32_t kFirstValues = kCount - kHeadTiles;         // tiles before it are keys
  using KvBuffers = KvBuffer[kKvBuffers][kStrips];

  __device__ __forceinline__ KvTiles(const Source& source, KvBuffers& buffers)
      : source_(source), buffers_(buffers) {}

  // Buffer of a KV tile of the current step.
  __device__ __forceinline__ KvBuffer& buffer(uint32_t kv_tile, uint32_t strip) const {
    return buffers_[(first_buffer_ + kv_tile) % kKvBuffers][strip];
  }
  __device__ __forceinline__ void next_step() { first_buffer_ = (first_buffer_ + kCount) % kKvBuffers; }

  // Loads the first tiles of the first step, except the tokens that this pass adds; load_new() …
  __device__ __forceinline__ void load_known(const Step& step, uint32_t known) const {
#pragma unroll 1
    for (uint32_t kv_tile = 0; kv_tile < kFirstTiles; ++kv_tile) load(step, kv_tile, kv_tile, known);
  }
  // … loads those, and the next tiles.
  __device__ __forceinline__ void load_new(const Step& step, const Step& next, uint32_t known) const {
    const uint32_t begin = source_.rows_before(step.item, known), end = source_.rows(step.item);
    if (begin < end) {
      tiles::wait_async<0>();  // the copies that zero these rows must have landed
#pragma unroll 1
      for (uint32_t kv_tile = 0; kv_tile < kFirstTiles; ++kv_tile)
        tiles::load_rows_async(buffer(kv_tile, source_.warp).tile, from(step, kv_tile), begin, end,
                               source_.group.lane);
    }
    tiles::commit_async();
    if (kFirstTiles < kKvBuffers) {
      load(next, 0, kCount, next.item.tokens);
    } else {
      tiles::commit_async();  // wait() counts one group a tile
    }
  }
  // Called when `kv_tile` of `step` has been used; `next` and `following` are the next two steps.
  __device__ __forceinline__ void load_ahead(const Step& step, const Step& next, const Step& following,
                                             uint32_t kv_tile) const {
    const uint32_t ahead = kv_tile + kKvBuffers;
    const Step of = ahead < kCount ? step : ahead < 2 * kCount ? next : following;
    load(of, ahead % kCount, ahead, of.item.tokens);
  }
  // Returns when the next tile has landed; the one after it may still be in flight, if it has a buffer.
  __device__ __forceinline__ void wait() const {
    tiles::wait_async<kKvBuffers - 1>();
  }
  // Returns when no tile is in flight.
  __device__ __forceinline__ void wait_all() const {
    tiles::wait_async<0>();
  }

 private:
  static constexpr uint32_t kFirstTiles = kCount < kKvBuffers ? kCount : kKvBuffers;

  __device__ __forceinline__ tiles::GlobalTile<const tiles::Bf16> from(const Step& step,
                                                                       uint32_t kv_tile) const {
    const auto* cache = kWithKeys && kv_tile < kHeadTiles ? source_.keys() : source_.values();
    return {cache + source_.template offset<kHeadDim>(step) + kv_tile % kHeadTiles * kKvTileChannels,
            kHeadDim};
  }
  // Loads the strip's tokens before `end`, and zeros after them. `counted`: the tile's number counted from
  // the current step, which determines its buffer.
  __device__ __forceinline__ void load(const Step& step, uint32_t kv_tile, uint32_t counted,
                                       uint32_t end) const {
    if (step.item.sees_strip(source_.warp)) {
      tiles::load_async(buffer(counted, source_.warp).tile, from(step, kv_tile),
                        source_.rows_before(step.item, end), source_.group.lane);
    }
    tiles::commit_async();
  }

  Source source_;
  KvBuffers& buffers_;
  uint32_t first_buffer_ = 0;  // of the step's first tile
};

}  // namespace serval::device::attention
