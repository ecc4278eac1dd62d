// Sums and maxima over the rows or the columns of a tile, in an order that the shape alone decides.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

struct Sum {
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Max {
  static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

// Over the lanes that share a column of a row-layout tile; all of them get the result.
template <class Reduction>
__device__ __forceinline__ float reduce_singles(float v) {
#pragma unroll
  for (int distance = kPairLanes; distance < static_cast<int>(kLanes); distance *= 2) {
    v = Reduction::of(v, __shfl_xor_sync(kAllLanes, v, distance));
  }
  return v;
}

// dst[c] = the reduction of src[., c]: a lane's quadrants one after the other, then over the lanes.
template <class Reduction, AccumulatorTile Tile>
__device__ __forceinline__ void reduce_columns(ColumnVector<Tile>& dst, const Tile& src) {
#pragma unroll
  for (int c = 0; c < Tile::kQuadrantCols; ++c) {
    float2 v = src.quadrant[0][c];
#pragma unroll
    for (int r = 1; r < Tile::kQuadrantRows; ++r) {
      v.x = Reduction::of(v.x, src.quadrant[r][c].x);
      v.y = Reduction::of(v.y, src.quadrant[r][c].y);
    }
    dst.quadrant[c] = {reduce_singles<Reduction>(v.x), reduce_singles<Reduction>(v.y)};
  }
}

}  // namespace serval::tiles
