// Tiles in the registers of a warp.
#pragma once

#include "vm/tiles/types/element.cuh"
#include "vm/tiles/types/layout.cuh"

namespace serval::tiles {

// A matrix of kRows × kCols, distributed over the lanes as in types/layout.cuh. Indices of `quadrant` must be
// compile-time constants (unrolled loops); otherwise the tile is placed in local memory.
template <Element T, int kRowsOf, int kColsOf, Layout kLayoutOf = Layout::kRow>
struct RegisterTile {
  using ElementType = T;
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr Layout kLayout = kLayoutOf;
  static constexpr int kQuadrantWidth = kQuadrant * kLaneElements<T> / 2;
  static constexpr int kQuadrantRows = kRows / kQuadrant, kQuadrantCols = kCols / kQuadrantWidth;
  static_assert(!Element8<T> || kLayout == Layout::kRow, "e4m3 tiles are left operands: Layout::kRow");
  static_assert(kRows > 0 && kRows % kQuadrant == 0, "rows come in whole quadrants");
  static_assert(kCols > 0 && kCols % kQuadrantWidth == 0, "columns come in whole quadrants");

  Pair<T> quadrant[kQuadrantRows][kQuadrantCols];

  // Position in the matrix of element `i` of those that this lane holds in quadrant (r, c).
  static constexpr __host__ __device__ uint32_t row_of(uint32_t lane, int r, int i) {
    return static_cast<uint32_t>(r * kQuadrant) + row_in_quadrant<kLayout>(lane, i);
  }
  static constexpr __host__ __device__ uint32_t col_of(uint32_t lane, int c, int i) {
    if constexpr (Element8<T>) return c * kQuadrantWidth + kLaneElements<T> * (lane % kPairLanes) + i;
    return static_cast<uint32_t>(c * kQuadrant) + col_in_quadrant<kLayout>(lane, i);
  }
};

// The tile that mma accumulates.
template <int kRows, int kCols>
using Accumulator = RegisterTile<float, kRows, kCols>;

}  // namespace serval::tiles
