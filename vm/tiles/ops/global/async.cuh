// A warp's asynchronous loads from global to shared memory (cp.async).
#pragma once

#include "vm/ptx/copy.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Copies the first `rows` rows of src to dst, 16 bytes a lane, and zeroes the other rows. Belongs to the
// group that the warp commits next.
template <AnySharedTile Dst, Coherence kCoherence>
__device__ __forceinline__ void load_async(Dst& dst,
                                           const GlobalTile<const typename Dst::ElementType, kCoherence>& src,
                                           uint32_t rows = Dst::kRows, uint32_t lane = lane_id()) {
  static_assert(kWarpThreads % Dst::kRowSegments == 0, "a warp copies some whole rows at a time");
  constexpr uint32_t kRowsAtOnce = kWarpThreads / Dst::kRowSegments;
  static_assert(Dst::kRows % kRowsAtOnce == 0, "and these divide the tile's rows");
  const uint32_t row_of_lane = lane / Dst::kRowSegments % kRowsAtOnce;
  const uint32_t col = lane % Dst::kRowSegments * Dst::kSegmentElements;
  const auto* from = src.at(row_of_lane, col);
  const auto rows_below = static_cast<int>(rows - row_of_lane);
#pragma unroll
  for (int row = 0; row < Dst::kRows; row += kRowsAtOnce) {
    const uint32_t to = Dst::offset(row % kQuadrant + row_of_lane, col);
    ptx::copy_async_16(dst.data + Dst::template moved<1>(to, row / kQuadrant * kQuadrant, 0),
                       from + size_t{src.stride} * row, row < rows_below ? Dst::kSegmentBytes : 0);
  }
}
// Copies rows `begin` to `end` - 1 of src to dst; the other rows stay unchanged.
template <AnySharedTile Dst, Coherence kCoherence>
__device__ __forceinline__ void load_rows_async(
    Dst& dst, const GlobalTile<const typename Dst::ElementType, kCoherence>& src, uint32_t begin,
    uint32_t end, uint32_t lane = lane_id()) {
  const uint32_t col = lane % Dst::kRowSegments * Dst::kSegmentElements;
#pragma unroll 1
  for (uint32_t row = begin + lane / Dst::kRowSegments; row < end; row += kWarpThreads / Dst::kRowSegments)
    ptx::copy_async_16(dst.at(row, col), src.at(row, col), Dst::kSegmentBytes);
}
// The copies since the last commit form a group.
__device__ __forceinline__ void commit_async() {
  ptx::commit_copies();
}
// Returns when all groups of this warp but the kPending latest have landed; all lanes may then read them.
template <uint32_t kPending>
__device__ __forceinline__ void wait_async() {
  ptx::wait_copies<kPending>();
  __syncwarp();
}

}  // namespace serval::tiles
