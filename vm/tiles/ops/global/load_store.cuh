// Copies between global memory and registers or shared memory by one warp; loads are synchronous.
#pragma once

#include "vm/tiles/ops/global/read.cuh"
#include "vm/tiles/ops/register/terms.cuh"

namespace serval::tiles {

// dst = src
template <AnyRegisterTile Dst, Coherence kCoherence>
__device__ __forceinline__ void load(Dst& dst,
                                     const GlobalTile<const typename Dst::ElementType, kCoherence>& src,
                                     uint32_t lane = lane_id()) {
#pragma unroll
  for (int r = 0; r < Dst::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Dst::kQuadrantCols; ++c) {
      if constexpr (Dst::kLayout == Layout::kRow) {
        const auto* from = src.at(Dst::row_of(lane, r, 0), Dst::col_of(lane, c, 0));
        dst.quadrant[r][c] =
            read_global<kCoherence>(reinterpret_cast<const Pair<typename Dst::ElementType>*>(from));
      } else {
        const uint32_t col = Dst::col_of(lane, c, 0);
        const uint32_t low = read_global<kCoherence>(&src.at(Dst::row_of(lane, r, 0), col)->bits);
        const uint32_t high = read_global<kCoherence>(&src.at(Dst::row_of(lane, r, 1), col)->bits);
        dst.quadrant[r][c] = low | high << 16;
      }
    }
  }
}
template <AnyRegisterTile Src>
__device__ __forceinline__ void store(const GlobalTile<typename Src::ElementType>& dst, const Src& src,
                                      uint32_t lane = lane_id()) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) {
      auto* to = dst.at(Src::row_of(lane, r, 0), Src::col_of(lane, c, 0));
      if constexpr (Src::kLayout == Layout::kRow) {
        *reinterpret_cast<Pair<typename Src::ElementType>*>(to) = src.quadrant[r][c];
      } else {
        to->bits = static_cast<uint16_t>(src.quadrant[r][c]);
        to[dst.stride].bits = static_cast<uint16_t>(src.quadrant[r][c] >> 16);
      }
    }
  }
}

// Loads rows 8 `eight` to 8 `eight` + 7 of dst from arbitrary addresses: each lane gives the address of the
// row that it holds a part of, and reads 16 bytes at a time. This permutes each 32 columns, in the same way
// in every tile loaded by load_terms(), so a product that sums over these columns is not affected.
template <Coherence kCoherence, RowOperand Dst>
__device__ __forceinline__ void load_terms(Dst& dst, uint32_t eight, const typename Dst::ElementType* row,
                                           uint32_t lane = lane_id()) {
  static_assert(Dst::kCols % kTermColumns == 0, "a lane reads 16 bytes of every 32 columns");
  const auto* segments = reinterpret_cast<const uint4*>(row) + lane % kPairLanes;
#pragma unroll
  for (uint32_t c = 0; c < Dst::kCols / kTermColumns; ++c)
    put_terms(dst, eight, c, read_global<kCoherence>(segments + c * kPairLanes));
}

// Calls fn(row, col) for each 16-byte segment of a shared tile that this lane moves.
template <AnySharedTile Tile, class Fn>
__device__ __forceinline__ void for_segments(uint32_t lane, Fn&& fn) {
  constexpr uint32_t kSegments = Tile::kRows * Tile::kRowSegments;
#pragma unroll
  for (uint32_t first = 0; first < kSegments; first += kWarpThreads) {
    const uint32_t segment = first + lane;
    if (kSegments % kWarpThreads == 0 || segment < kSegments)
      fn(segment / Tile::kRowSegments, segment % Tile::kRowSegments * Tile::kSegmentElements);
  }
}
template <AnySharedTile Dst, Coherence kCoherence>
__device__ __forceinline__ void load(Dst& dst,
                                     const GlobalTile<const typename Dst::ElementType, kCoherence>& src,
                                     uint32_t lane = lane_id()) {
  for_segments<Dst>(lane, [&](uint32_t row, uint32_t col) {
    const auto* from = reinterpret_cast<const uint4*>(src.at(row, col));
    *reinterpret_cast<uint4*>(dst.at(row, col)) = read_global<kCoherence>(from);
  });
}
template <AnySharedTile Src>
__device__ __forceinline__ void store(const GlobalTile<typename Src::ElementType>& dst, const Src& src,
                                      uint32_t lane = lane_id()) {
  for_segments<Src>(lane, [&](uint32_t row, uint32_t col) {
    *reinterpret_cast<uint4*>(dst.at(row, col)) = *reinterpret_cast<const uint4*>(src.at(row, col));
  });
}

}  // namespace serval::tiles
