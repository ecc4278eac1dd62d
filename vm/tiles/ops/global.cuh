// Between global memory and registers. A lane adds to its own address only what is known at compile time, if
// the stride is: then all loads share one address register.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Eight neighbours of a row at a time: a quarter warp reads 64 bytes of each of two rows.
template <OperandOf<Layout::kRow> Tile, Coherence kCoherence>
requires(Tile::kRowOrder == Order::kNatural && Tile::kColOrder == Order::kWide) __device__ __forceinline__
    void load(Tile& dst, const GlobalTile<const typename Tile::ElementType, kCoherence>& src) {
  constexpr int kSpanQuadrants = kPairSpan / kQuadrant;
  const uint32_t lane = lane_id();
  const auto* mine = src.data + Tile::row_of(lane, 0, 0) * src.stride + Tile::col_of(lane, 0, 0);
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int s = 0; s < Tile::kCols / kPairSpan; ++s) {
      const auto* from = mine + r * kQuadrant * src.stride + s * kPairSpan;
      const uint4 run = read_global<kCoherence>(reinterpret_cast<const uint4*>(from));
      uint32_t* to = &dst.quadrant[r][s * kSpanQuadrants];
      to[0] = run.x;
      to[1] = run.y;
      to[2] = run.z;
      to[3] = run.w;
    }
  }
}

// Eight neighbours of a row at a time: a quarter warp reads 16 bytes of four rows, a warp 128 bytes of each.
template <Element16 T, int kRows, int kCols, Coherence kCoherence>
__device__ __forceinline__ void load(ColumnStage<T, kRows, kCols>& dst,
                                     const GlobalTile<const T, kCoherence>& src) {
  using Tile = RegisterTile<T, kRows, kCols, Layout::kCol, Order::kNatural, Order::kWide>;
  const uint32_t lane = lane_id();
  const T* mine = src.data + Tile::row_of(lane, 0, 0) * src.stride + Tile::col_of(lane, 0, 0);
#pragma unroll
  for (int r = 0; r < kRows / kQuadrant; ++r) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int s = 0; s < kCols / kSingleSpan; ++s) {
        const T* from = mine + (r * kQuadrant + i) * src.stride + s * kSingleSpan;
        dst.run[r][i][s] = read_global<kCoherence>(reinterpret_cast<const uint4*>(from));
      }
    }
  }
}

}  // namespace serval::tiles
