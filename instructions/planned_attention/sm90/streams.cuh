// Streams: the work that the preparer loads and the consumers process, and the shared memory that they share.
//
// A stream is a KV head of an item and as many of the item's rows as the warpgroups have tiles for. Each
// block is two pages, one of keys and one of values; a block's values come after the next block's keys, in
// the order of their use. Pages and streams are numbered through the whole record. The preparer finds the
// streams and describes them to the consumers.
//
// In kernels of single rows, where an item has one row (DeviceLaunch::single_rows), a stream has several KV
// heads, up to two for each warpgroup: a warpgroup that processed one block after the other would wait longer
// for its own products than for its pages. There, values follow the keys of the same block, with the heads'
// pages in turn, and the copy engine loads queries together with the first keys.
#pragma once

#include <cstdint>

#include "instructions/planned_attention/op.h"
#include "instructions/planned_attention/sm90/joint_run.cuh"
#include "vm/device/op.cuh"
#include "vm/device/sm90/roles.cuh"
#include "vm/layout/kv_cache.h"

namespace serval::device::planned {

inline constexpr uint32_t kWarpgroups = kConsumerWarps / kWarpgroupWarps;
inline constexpr uint32_t kTileRows = 64;                // rows of a full tile: query heads of rows
inline constexpr uint32_t kNarrowRows = kNarrowQueries;  // rows of a narrow tile
inline constexpr uint32_t kForms = 2;                    // forms of tiles
inline constexpr uint32_t kRowBytes = 128;
inline constexpr uint32_t kPartChannels = 64;  // 128 bytes of each token
inline constexpr uint32_t kPartBytes = kTileRows * kRowBytes;
inline constexpr uint32_t kLeafBlocks = kPlannedLeafTokens / kKvBlockTokens;
static_assert(kKvBlockTokens == kTileRows);

template <uint32_t kRows>
struct alignas(16) StreamOf {
  AttentionItem item;
  uint32_t head;       // KV head, the first of `heads`
  uint32_t heads;      // 1, or those of both warpgroups (HeadShare)
  uint32_t first_row;  // in the item: first row of the first warpgroup's tile
  uint32_t tokens;     // end of the stream's tokens in the sequence: no row of the stream sees more
  uint32_t first_block;
  uint32_t blocks;          // 0: the record has no further stream
  uint32_t visible[kRows];  // by row from first_row on: tokens that it sees; 0: none
};

// The record's tensors that consumers use. They read the addresses here, where the loop over blocks leaves no
// register for that of the record.
struct Tensors {
  const uint16_t* q;
  float* partial;
  std::byte* output;
};

// The preparer's position: the next stream to look for.
struct Cursor {
  uint32_t item, end_item;  // in the list
  uint32_t first_row, head;
};

// Maps rows of a tile to rows of the pass: a row of the pass has one tile row for each query head of the
// group. row_of() divides numbers up to 64.
struct GroupHeads {
  uint32_t count;
  uint32_t inverse;

  __device__ __forceinline__ explicit GroupHeads(uint32_t heads)
      : count(heads), inverse((65536 + heads - 1) / heads) {}
  __device__ __forceinline__ uint32_t row_of(uint32_t tile_row) const { return tile_row * inverse >> 16; }
  __device__ __forceinline__ uint32_t rows_of_tile() const { return row_of(kTileRows); }
};

// In kernels of single rows: number of KV heads of a warpgroup, whose queries share a tile.
__device__ __forceinline__ uint32_t heads_of_tile(const GroupHeads& heads) {
  return heads.count <= kNarrowRows / 2 ? 2 : 1;
}
// In kernels of single rows: the neighbouring KV heads of a stream that a warpgroup has.
struct HeadShare {
  uint32_t first, count;

  // The n-th warpgroup's share of `heads` heads: one each if there are enough warpgroups.
  __device__ __forceinline__ HeadShare(uint32_t heads, uint32_t n)
      : first(heads <= kWarpgroups ? n : 2 * n),
        count(first >= heads                               ? 0
              : heads <= kWarpgroups || first + 1 == heads ? 1
                                                           : 2) {}
};

// Values that the warps of a warpgroup share in a narrow tile, for pairs of queries.
struct NarrowWork {
  float2 weights[kKvBlockTokens][kNarrowRows / 2];
  float2 most[kWarpgroupWarps][kNarrowRows / 2];
};

// Scratch memory: pages, streams and barriers. A page is a block's keys or values: channels in parts of 64;
// each part has 64 rows of 128 bytes, swizzled as the copy engine does.
template <uint32_t kScratch, uint32_t kHeadDim, bool kNarrow, bool kFull>
struct Places {
  static constexpr uint32_t kParts = kHeadDim / kPartChannels;
  static constexpr bool kSingleRows = !kFull;
  static constexpr uint32_t kOtherBytes = kSingleRows ? 1024 : 2560;  // streams and barriers
  using Stream = StreamOf<kSingleRows ? 1 : kWarpgroups * kTileRows>;
  static constexpr uint32_t kStreamSlots = kSingleRows && kParts > 1 ? 2 : 3;  // each also has queries
  static constexpr uint32_t kPageBytes = kParts * kPartBytes;
  // Parts of a full tile's queries in shared memory. The last part may be in registers; more parts would take
  // more registers than the products leave.
  static constexpr uint32_t kSharedParts = !kFull ? 0 : kScratch > 96 * 1024 ? kParts : kParts - 1;
  static constexpr uint32_t kQueryBytes = kSharedParts * kPartBytes;
  // Rows of a narrow tile: the channels of its queries, and their weights for the tokens of a block.
  static constexpr uint32_t kNarrowPartBytes = kNarrowRows * kRowBytes;
  using NarrowQueries = std::byte[kParts][kNarrowPartBytes];
  struct NarrowOperands {
    NarrowQueries queries[kSingleRows ? kStreamSlots : 1];  // of the streams
    std::byte weights[kNarrowPartBytes];
  };
  static constexpr uint32_t kNarrowTiles = kNarrow ? kWarpgroups : 1;
  static constexpr uint32_t kTilesBytes =
      kWarpgroups * kQueryBytes + kNarrowTiles * (sizeof(NarrowOperands) + sizeof(NarrowWork));
  static constexpr uint32_t kFit = (kScratch - kOtherBytes - kTilesBytes) / kPageBytes;
  static constexpr uint32_t kMostPages = 16;
  static constexpr uint32_t kPages = kFit < kMostPages ? kFit : kMostPages;
  static_assert(kPages >= (kSingleRows ? 4 : 2),
                "room for keys and values; in kernels of single rows, for those of a step");

  std::byte page[kPages][kPageBytes];
  NarrowOperands narrow_operands[kNarrowTiles];
  std::byte queries[kWarpgroups][kQueryBytes > 0 ? kQueryBytes : 16];
  NarrowWork narrow[kNarrowTiles];
  Stream streams[kStreamSlots];
  Cursor cursor;
  GroupHeads heads;
  Tensors tensors;
  // Pages that have been issued, in kernels of single rows. There a warpgroup does not wait for every page,
  // so a page's barrier may be two phases behind when the warpgroup comes to it. Once the page has been
  // issued, the previous one in its buffer has landed.
  uint32_t issued;
  uint64_t landed[kPages];
  uint64_t free[kPages];
  uint64_t stream_ready[kStreamSlots];
  uint64_t stream_free[kStreamSlots];
  uint64_t together[kForms][kWarpgroups];  // barriers of the warpgroups
  JointRun joint_runs[kWarpgroups];
  uint32_t preparer_left;  // 1: the preparer hands over no further stream

  // Initialises the barriers for a record. Called by one thread.
  __device__ __forceinline__ void init_barriers() {
    issued = 0;
    preparer_left = 0;
    for (JointRun& warpgroup : joint_runs) warpgroup.init();
    for (uint64_t& barrier : landed) ptx::mbarrier_init(&barrier, 1);
    constexpr uint32_t kPageReaders = kSingleRows ? kWarpgroupWarps : kConsumerWarps;
    for (uint64_t& barrier : free) ptx::mbarrier_init(&barrier, kPageReaders);
    for (uint64_t& barrier : stream_ready) ptx::mbarrier_init(&barrier, 1);
    for (uint64_t& barrier : stream_free) ptx::mbarrier_init(&barrier, kConsumerWarps);
    for (auto& barriers : together) {
      for (uint64_t& barrier : barriers) ptx::mbarrier_init(&barrier, kWarpgroupWarps);
    }
    ptx::fence_mbarrier_init();
  }
  // Called by one thread when all warps are done with the barriers; afterwards the memory may be reused.
  __device__ __forceinline__ void invalidate_barriers() {
    for (JointRun& warpgroup : joint_runs) ptx::mbarrier_invalidate(&warpgroup.done);
    for (uint64_t& barrier : landed) ptx::mbarrier_invalidate(&barrier);
    for (uint64_t& barrier : free) ptx::mbarrier_invalidate(&barrier);
    for (uint64_t& barrier : stream_ready) ptx::mbarrier_invalidate(&barrier);
    for (uint64_t& barrier : stream_free) ptx::mbarrier_invalidate(&barrier);
    for (auto& barriers : together) {
      for (uint64_t& barrier : barriers) ptx::mbarrier_invalidate(&barrier);
    }
  }
};
template <class Config, uint32_t kHeadDim>
using PlacesOf = Places<Config::kScratchBytes, kHeadDim, Config::kHasNarrowTiles, Config::kHasFullTiles>;

// Position in a ring.
struct Place {
  uint32_t at = 0;
  uint32_t lap = 0;

  __device__ __forceinline__ void advance(uint32_t places) {
    if (++at < places) return;
    at = 0;
    ++lap;
  }
  template <uint32_t kPlaces>
  __device__ __forceinline__ Place next() const {
    return at + 1 == kPlaces ? Place{0, lap + 1} : Place{at + 1, lap};
  }
  // The position `n` entries further.
  template <uint32_t kPlaces>
  __device__ __forceinline__ Place ahead(uint32_t n) const {
    return {(at + n) % kPlaces, lap + (at + n) / kPlaces};
  }
};

// Number of the sequence's first tokens, up to the item's end, that a row sees; 0 if it sees none of the
// item's tokens.
__device__ __forceinline__ uint32_t visible_tokens(const AttentionItem& item, const PassRow* row) {
  const uint4 head = ptx::load_relaxed(reinterpret_cast<const uint4*>(row));  // active, …, slot, token
  const uint32_t tokens = ptx::load_relaxed(&row->position) + 1;
  const uint64_t end = uint64_t{item.end_leaf} * kPlannedLeafTokens;
  const bool sees = head.x != 0 && head.z == item.slot && tokens > item.first_leaf * kPlannedLeafTokens;
  return !sees ? 0 : tokens < end ? tokens : static_cast<uint32_t>(end);
}

}  // namespace serval::device::planned
