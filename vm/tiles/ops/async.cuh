// From global to shared memory while the warp goes on.
#pragma once

#include "vm/tiles/ptx_async.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// One warp copies a tile, 16 bytes a lane. It is part of the group that the warp commits next.
template <AnySharedTile Dst, Coherence kCoherence>
__device__ __forceinline__ void load_async(
    Dst& dst, const GlobalTile<const typename Dst::ElementType, kCoherence>& src) {
  static_assert(Dst::kRows * Dst::kRowUnits % kLanes == 0, "a tile is copied by whole warps");
  const uint32_t lane = lane_id();
  const auto* from =
      src.data + lane / Dst::kRowUnits * src.stride + lane % Dst::kRowUnits * Dst::kUnitElements;
#pragma unroll
  for (uint32_t first = 0; first < Dst::kRows * Dst::kRowUnits; first += kLanes) {
    const uint32_t row = (first + lane) / Dst::kRowUnits, unit = (first + lane) % Dst::kRowUnits;
    ptx::copy_async_16(dst.at(row, unit * Dst::kUnitElements), from + first / Dst::kRowUnits * src.stride);
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
