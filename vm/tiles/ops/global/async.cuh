// From global to shared memory while a warp goes on, by the warp's own loads.
#pragma once

#include "vm/tiles/ptx_async.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// dst = src, 16 bytes a lane. It is part of the group that the warp commits next.
template <AnySharedTile Dst, Coherence kCoherence>
__device__ __forceinline__ void load_async(Dst& dst,
                                           const GlobalTile<const typename Dst::ElementType, kCoherence>& src,
                                           uint32_t lane = lane_id()) {
  static_assert(kLanes % Dst::kRowUnits == 0, "a warp copies some whole rows at a time");
  constexpr uint32_t kRowsAtOnce = kLanes / Dst::kRowUnits;
  static_assert(Dst::kRows % kRowsAtOnce == 0, "and all of them in the end");
  const uint32_t col = lane % Dst::kRowUnits * Dst::kUnitElements;
  const auto* from = src.at(lane / Dst::kRowUnits, col);
#pragma unroll
  for (uint32_t row = 0; row < Dst::kRows; row += kRowsAtOnce) {
    ptx::copy_async_16(dst.at(row + lane / Dst::kRowUnits, col), from + row * src.stride);
  }
}
// Copies since the last commit are a group.
__device__ __forceinline__ void commit_async() {
  ptx::commit_copies();
}
// Returns when all groups of this warp have landed but the kPending latest, and all lanes may read what
// landed.
template <uint32_t kPending>
__device__ __forceinline__ void wait_async() {
  ptx::wait_copies<kPending>();
  __syncwarp();
}

}  // namespace serval::tiles
