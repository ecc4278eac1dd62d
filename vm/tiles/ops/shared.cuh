// Between shared memory and registers.
#pragma once

#include "vm/tiles/ptx_mma.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Four quadrants at a time, kRowStep × (4 / kRowStep) of them; lanes 8 i to 8 i + 7 give the addresses of the
// rows of the i-th. Those along the rows come one after the other if kRowsFirst, and so do their registers.
template <int kRowStep, bool kRowsFirst, class Dst, class Src>
__device__ __forceinline__ void load_fours(Dst& dst, const Src& src) {
  constexpr int kColStep = 4 / kRowStep;
  static_assert(Dst::kQuadrantRows % kRowStep == 0 && Dst::kQuadrantCols % kColStep == 0,
                "quadrants come by fours");
  const auto row_of = [](int i) { return kRowsFirst ? i % kRowStep : i / kColStep; };
  const auto col_of = [](int i) { return kRowsFirst ? i / kRowStep : i % kColStep; };
  const int lane = static_cast<int>(lane_id()), quadrant = lane / kQuadrant;
  const int row = row_of(quadrant) * kQuadrant + lane % kQuadrant, col = col_of(quadrant) * kQuadrant;
#pragma unroll
  for (int r = 0; r < Dst::kQuadrantRows; r += kRowStep) {
#pragma unroll
    for (int c = 0; c < Dst::kQuadrantCols; c += kColStep) {
      uint32_t four[4];
      ptx::load_matrices<Dst::kLayout == Layout::kCol>(four,
                                                       src.at(r * kQuadrant + row, c * kQuadrant + col));
#pragma unroll
      for (int i = 0; i < 4; ++i) dst.quadrant[r + row_of(i)][c + col_of(i)] = four[i];
    }
  }
}

// dst = src, for use as the left operand of a product: the four quadrants of a base tile come in the order of
// mma's registers.
template <OperandTile Dst, AnySharedTile Src>
requires SameElement<Dst, Src> && SameShape<Dst, Src> __device__ __forceinline__ void load_left(
    Dst& dst, const Src& src) {
  load_fours<2, Dst::kLayout == Layout::kRow>(dst, src);
}
// The same as the right operand: two quadrants side by side along the terms of the product belong together.
template <OperandTile Dst, AnySharedTile Src>
requires SameElement<Dst, Src> && SameShape<Dst, Src> __device__ __forceinline__ void load_right(
    Dst& dst, const Src& src) {
  constexpr bool kTall = Dst::kQuadrantRows % 2 == 0;
  load_fours<kTall ? 2 : 1, Dst::kLayout == Layout::kCol>(dst, src);
}

// An element for each column of a row-layout tile.
template <class T, int kLength>
__device__ __forceinline__ void load(RegisterVector<T, kLength, Along::kPairs>& dst,
                                     const T (&src)[kLength]) {
  const uint32_t first = col_in_quadrant<Layout::kRow>(lane_id(), 0);
#pragma unroll
  for (int c = 0; c < kLength / kQuadrant; ++c) {
    dst.quadrant[c] = *reinterpret_cast<const Pair<T>*>(&src[c * kQuadrant + first]);
  }
}

// dst = src
template <int kRows, int kCols, class Swizzle>
__device__ __forceinline__ void store(SharedTile<float, kRows, kCols, Swizzle>& dst,
                                      const Accumulator<kRows, kCols>& src) {
  using Tile = Accumulator<kRows, kCols>;
  const uint32_t lane = lane_id();
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      *reinterpret_cast<float2*>(dst.at(Tile::row_of(lane, r, 0), Tile::col_of(lane, c, 0))) =
          src.quadrant[r][c];
    }
  }
}

}  // namespace serval::tiles
