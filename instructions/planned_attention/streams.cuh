// Streams: what the preparer brings and the consumers work on, and the shared memory that they meet in.
//
// A stream is a KV head of an item and as many of the item's rows as the warpgroups have tiles for. Its
// blocks come as pages, one of keys and one of values each; the values of a block come after the keys of the
// next, since that is when they are needed. Pages are counted through all streams of the record, and so are
// streams: the preparer finds them and says what is to be done.
//
// In kernels of single rows, where an item has one row (DeviceLaunch::single_rows), a stream has several KV
// heads, up to two for each warpgroup: a warpgroup that has one block after the other waits for itself longer
// than for its pages. Values then come right behind the keys, and pages of the heads in turn; queries come
// with the first keys, by the copy engine.
#pragma once

#include <cstdint>

#include "instructions/planned_attention/joint_run.cuh"
#include "instructions/planned_attention/op.h"
#include "vm/device/op.cuh"
#include "vm/device/roles.cuh"
#include "vm/layout/kv_cache.h"

namespace serval::device::planned {

inline constexpr uint32_t kWarpgroups = kConsumerWarps / kWarpgroupWarps;
inline constexpr uint32_t kTileRows = 64;                // query heads of rows, on the tensor cores
inline constexpr uint32_t kNarrowRows = kNarrowQueries;  // of a narrow tile
inline constexpr uint32_t kForms = 2;                    // of tiles
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
  uint32_t first_row;  // of the item's: where the first warpgroup's tile begins
  uint32_t tokens;  // that the stream ends with, of the sequence: no row of the item sees more of the item's
  uint32_t first_block;
  uint32_t blocks;          // 0: the record has no further stream
  uint32_t visible[kRows];  // tokens that each row from first_row on sees; 0: none
};

// What the preparer looks for next.
struct Cursor {
  uint32_t item, end_item;  // of the list's
  uint32_t first_row, head;
};

// Rows of a tile that a row of the pass has: one for each query head of the group. Quotients of numbers below
// 64.
struct GroupHeads {
  uint32_t count;
  uint32_t inverse;

  __device__ __forceinline__ explicit GroupHeads(uint32_t heads)
      : count(heads), inverse((65536 + heads - 1) / heads) {}
  __device__ __forceinline__ uint32_t row_of(uint32_t tile_row) const { return tile_row * inverse >> 16; }
  __device__ __forceinline__ uint32_t rows_of_tile() const { return row_of(kTileRows); }
};

// In kernels of single rows: how many KV heads a warpgroup may have at once. Their queries share a tile.
__device__ __forceinline__ uint32_t heads_of_tile(const GroupHeads& heads) {
  return heads.count <= kNarrowRows / 2 ? 2 : 1;
}
// There, the KV heads of a stream's that a warpgroup has, next to each other.
struct HeadShare {
  uint32_t first, count;

  // Of `heads` heads, the `n`-th warpgroup's: one each as long as that does.
  __device__ __forceinline__ HeadShare(uint32_t heads, uint32_t n)
      : first(heads <= kWarpgroups ? n : 2 * n),
        count(first >= heads                               ? 0
              : heads <= kWarpgroups || first + 1 == heads ? 1
                                                           : 2) {}
};

// What the warps of a warpgroup tell each other of a narrow tile: of pairs of queries.
struct NarrowWork {
  float2 weights[kKvBlockTokens][kNarrowRows / 2];
  float2 most[kWarpgroupWarps][kNarrowRows / 2];
};

// Scratch memory: pages, and what is said about them. A page is a block's keys or values: channels in parts
// of 64, of each part 64 rows of 128 bytes, swizzled as the copy engine does.
template <uint32_t kScratch, uint32_t kHeadDim, bool kNarrow, bool kFull>
struct Places {
  static constexpr uint32_t kParts = kHeadDim / kPartChannels;
  static constexpr bool kSingleRows = !kFull;
  static constexpr uint32_t kOtherBytes = kSingleRows ? 1024 : 2560;  // streams and barriers
  using Stream = StreamOf<kSingleRows ? 1 : kWarpgroups * kTileRows>;
  static constexpr uint32_t kStreamSlots = kSingleRows && kParts > 1 ? 2 : 3;  // each has queries, too
  static constexpr uint32_t kPageBytes = kParts * kPartBytes;
  // Of queries of full tiles. The last part may be in registers, of which it takes more than the products
  // leave.
  static constexpr uint32_t kSharedParts = !kFull ? 0 : kScratch > 96 * 1024 ? kParts : kParts - 1;
  static constexpr uint32_t kQueryBytes = kSharedParts * kPartBytes;
  // Of a narrow tile, rows of queries: their channels, and their weights for the tokens of a block.
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
  static_assert(kPages >= (kSingleRows ? 4 : 2), "keys and values; of kernels of single rows a step's");

  std::byte page[kPages][kPageBytes];
  NarrowOperands narrow_operands[kNarrowTiles];
  std::byte queries[kWarpgroups][kQueryBytes > 0 ? kQueryBytes : 16];
  NarrowWork narrow[kNarrowTiles];
  Stream streams[kStreamSlots];
  Cursor cursor;
  GroupHeads heads;
  // Pages that have been asked for, in kernels of single rows. A warpgroup does not look at every page there,
  // so a page's barrier may be two phases behind when it comes to it. Once the page has been asked for, what
  // had its place before has landed.
  uint32_t issued;
  uint64_t landed[kPages];
  uint64_t free[kPages];
  uint64_t stream_ready[kStreamSlots];
  uint64_t stream_free[kStreamSlots];
  uint64_t together[kForms][kWarpgroups];  // a warpgroup's own
  JointRun joint_runs[kWarpgroups];
  uint32_t preparer_left;  // 1: it hands no further stream over

  // For a record; by one thread.
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
  // By one thread, when all are done with them: the memory is then anything's.
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

// Of what goes round in a ring.
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
  // `n` further on.
  template <uint32_t kPlaces>
  __device__ __forceinline__ Place ahead(uint32_t n) const {
    return {(at + n) % kPlaces, lap + (at + n) / kPlaces};
  }
};

// Tokens that a row sees of an item's, counted from its sequence's first; 0 if it sees none of them.
__device__ __forceinline__ uint32_t visible_tokens(const AttentionItem& item, const PassRow* row) {
  const uint4 head = ptx::load_relaxed(reinterpret_cast<const uint4*>(row));  // active, …, slot, token
  const uint32_t tokens = ptx::load_relaxed(&row->position) + 1;
  const uint64_t end = uint64_t{item.end_leaf} * kPlannedLeafTokens;
  const bool sees = head.x != 0 && head.z == item.slot && tokens > item.first_leaf * kPlannedLeafTokens;
  return !sees ? 0 : tokens < end ? tokens : static_cast<uint32_t>(end);
}

}  // namespace serval::device::planned
