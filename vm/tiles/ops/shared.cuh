// Between shared memory and registers.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Eight neighbours of a row at a time; WideSwizzle keeps it free of bank conflicts.
template <OperandOf<Layout::kRow> Tile, class Swizzle>
requires(Tile::kRowOrder == Order::kNatural && Tile::kColOrder == Order::kWide) __device__ __forceinline__
    void load(Tile& dst,
              const SharedTile<typename Tile::ElementType, Tile::kRows, Tile::kCols, Swizzle>& src) {
  constexpr int kSpanQuadrants = kPairSpan / kQuadrant;
  const uint32_t lane = lane_id();
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; c += kSpanQuadrants) {
      const auto* from = src.at(Tile::row_of(lane, r, 0), Tile::col_of(lane, c, 0));
      const uint4 run = *reinterpret_cast<const uint4*>(from);
      uint32_t* to = &dst.quadrant[r][c];
      to[0] = run.x;
      to[1] = run.y;
      to[2] = run.z;
      to[3] = run.w;
    }
  }
}

// dst[n, m] = src[m, n], 16 bytes at a time.
template <int kRows, int kCols, class Swizzle, AccumulatorTile Tile>
requires(Tile::kRowOrder == Order::kWide && Tile::kRows == kCols &&
         Tile::kCols == kRows) __device__ __forceinline__
    void store_transposed(SharedTile<float, kRows, kCols, Swizzle>& dst, const Tile& src) {
  const uint32_t lane = lane_id();
#pragma unroll
  for (int m = 0; m < Tile::kQuadrantRows; m += 4) {
#pragma unroll
    for (int n = 0; n < Tile::kQuadrantCols; ++n) {
      const float2 *a = &src.quadrant[m][n], *b = &src.quadrant[m + 1][n], *c = &src.quadrant[m + 2][n],
                   *d = &src.quadrant[m + 3][n];
      const uint32_t col = Tile::row_of(lane, m, 0), row = Tile::col_of(lane, n, 0);
      *reinterpret_cast<float4*>(dst.at(row, col)) = {a->x, b->x, c->x, d->x};
      *reinterpret_cast<float4*>(dst.at(row + 1, col)) = {a->y, b->y, c->y, d->y};
    }
  }
}

}  // namespace serval::tiles
