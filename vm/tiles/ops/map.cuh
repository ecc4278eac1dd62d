// What happens to each element on its own. Tiles of fp32 only: 16-bit tiles are operands, not numbers to
// compute with.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

template <FloatTile Tile>
__device__ __forceinline__ void fill(Tile& dst, float value) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) dst.quadrant[r][c] = {value, value};
  }
}

template <int kLength>
__device__ __forceinline__ void fill(RegisterVector<float, kLength, Along::kPairs>& dst, float value) {
#pragma unroll
  for (float2& v : dst.quadrant) v = {value, value};
}

// dst = f(src, of the element's column, the element's row)
template <AccumulatorTile Tile, class T, class F>
__device__ __forceinline__ void map_columns(Tile& dst, const Tile& src, const ColumnVector<Tile, T>& columns,
                                            F&& f) {
  const uint32_t lane = lane_id();
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
    const uint32_t row = Tile::row_of(lane, r, 0);
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      const float2 v = src.quadrant[r][c];
      const Pair<T> of_column = columns.quadrant[c];
      dst.quadrant[r][c] = {f(v.x, of_column.x, row), f(v.y, of_column.y, row)};
    }
  }
}

}  // namespace serval::tiles
