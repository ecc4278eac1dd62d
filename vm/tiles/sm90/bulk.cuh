// Copies of whole rows between global and shared memory by the copy engine, issued by one thread. No
// swizzles.
//
// Other threads' writes to the source, and their accesses to the destination, must be ordered before the
// copy: by a barrier and a proxy fence (vm/ptx/sm90/bulk_copy.cuh), which is fence_proxy_async_shared() in
// each thread that accessed shared memory, or fence_proxy_async_global() in the thread that copies from
// global memory.
#pragma once

#include "vm/ptx/ptx.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

template <AnySharedTile Tile>
inline constexpr uint32_t kTileBytes = Tile::kRows* Tile::kCols * sizeof(typename Tile::ElementType);
template <class T>
concept PlainSharedTile = AnySharedTile<T> && std::same_as<typename T::Swizzle, NoSwizzle>;

// dst = src. Arrives at `landed`; its phase is complete when the tile has landed.
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
// dst = src; belongs to the group that the thread commits next.
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
// Returns when all of the thread's groups but the kPending latest are complete.
template <uint32_t kPending>
__device__ __forceinline__ void wait_stores() {
  ptx::wait_stores<kPending>();
}

}  // namespace serval::tiles
