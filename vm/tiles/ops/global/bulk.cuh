// Between global and shared memory by the copy engine, which one thread asks to move whole rows. It knows
// nothing of swizzles.
//
// What other threads wrote to the memory that is read, or read and wrote in the memory that is written, has
// to be ordered first: by a barrier, and by a proxy fence (vm/ptx/copy.cuh), fence_proxy_async_shared() in
// each thread that wrote to shared memory or fence_proxy_async_global() in the one that copies from global
// memory.
#pragma once

#include "vm/ptx/copy.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

template <AnySharedTile Tile>
inline constexpr uint32_t kTileBytes = Tile::kRows* Tile::kCols * sizeof(typename Tile::ElementType);
template <class T>
concept PlainSharedTile = AnySharedTile<T> && std::same_as<typename T::Swizzle, NoSwizzle>;

// dst = src. Arrives at `landed`, whose phase is complete when the tile is there.
template <PlainSharedTile Dst, Coherence kCoherence>
__device__ __forceinline__ void load_async(Dst& dst,
                                           const GlobalTile<const typename Dst::ElementType, kCoherence>& src,
                                           uint64_t* landed) {
  ptx::mbarrier_arrive_expect_bytes(landed, kTileBytes<Dst>);
  if (src.stride == Dst::kCols) {
    ptx::bulk_load(dst.data, src.data, kTileBytes<Dst>, landed);
    return;
  }
  for (uint32_t row = 0; row < Dst::kRows; ++row) {
    ptx::bulk_load(dst.at(row, 0), src.at(row, 0), kTileBytes<Dst> / Dst::kRows, landed);
  }
}
// dst = src, as part of the group that the thread commits next.
template <PlainSharedTile Src>
__device__ __forceinline__ void store_async(const GlobalTile<typename Src::ElementType>& dst,
                                            const Src& src) {
  if (dst.stride == Src::kCols) {
    ptx::bulk_store(dst.data, src.data, kTileBytes<Src>);
    return;
  }
  for (uint32_t row = 0; row < Src::kRows; ++row) {
    ptx::bulk_store(dst.at(row, 0), src.at(row, 0), kTileBytes<Src> / Src::kRows);
  }
}
__device__ __forceinline__ void commit_stores() {
  ptx::commit_stores();
}
// Returns when the thread's groups but the kPending latest are complete.
template <uint32_t kPending>
__device__ __forceinline__ void wait_stores() {
  ptx::wait_stores<kPending>();
}

}  // namespace serval::tiles
