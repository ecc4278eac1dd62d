// Tiles that live in the registers of a warp.
#pragma once

#include "vm/tiles/types/element.cuh"
#include "vm/tiles/types/layout.cuh"

namespace serval::tiles {

// A matrix of kRows × kCols, spread over the lanes as types/layout.cuh says. Indices into `quadrant` have to
// be known at compile time (unrolled loops), or the tile ends up in local memory.
template <Element T, int kRowsOf, int kColsOf, Layout kLayoutOf = Layout::kRow,
          Order kRowOrderOf = Order::kNatural, Order kColOrderOf = Order::kNatural>
struct RegisterTile {
  using ElementType = T;
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr Layout kLayout = kLayoutOf;
  static constexpr Order kRowOrder = kRowOrderOf, kColOrder = kColOrderOf;
  static constexpr int kQuadrantRows = kRows / kQuadrant, kQuadrantCols = kCols / kQuadrant;
  static constexpr int kRowSpan = kRowOrder == Order::kNatural ? kQuadrant
                                  : kLayout == Layout::kRow    ? kSingleSpan
                                                               : kPairSpan;
  static constexpr int kColSpan = kColOrder == Order::kNatural ? kQuadrant
                                  : kLayout == Layout::kRow    ? kPairSpan
                                                               : kSingleSpan;
  static_assert(kRows > 0 && kRows % kRowSpan == 0, "rows come in whole quadrants, or spans of a wide order");
  static_assert(kCols > 0 && kCols % kColSpan == 0, "columns do, too");

  Pair<T> quadrant[kQuadrantRows][kQuadrantCols];

  // Where element `i` of this lane's pair in quadrant (r, c) lies in the matrix.
  static constexpr __host__ __device__ uint32_t row_of(uint32_t lane, int r, int i) {
    if constexpr (kLayout == Layout::kRow) return single_position<kRowOrder>(lane, r);
    return pair_position<kRowOrder>(lane, r, i);
  }
  static constexpr __host__ __device__ uint32_t col_of(uint32_t lane, int c, int i) {
    if constexpr (kLayout == Layout::kRow) return pair_position<kColOrder>(lane, c, i);
    return single_position<kColOrder>(lane, c);
  }
};

// What mma accumulates.
template <int kRows, int kCols, Order kRowOrder = Order::kNatural>
using Accumulator = RegisterTile<float, kRows, kCols, Layout::kRow, kRowOrder>;

}  // namespace serval::tiles
