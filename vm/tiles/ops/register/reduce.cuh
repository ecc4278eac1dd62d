// Sums and maxima over the rows or columns of a tile. Their order depends only on the shape: first the lane's
// own elements, from the first quadrant to the last, then a butterfly over the lanes, neighbours first.
#pragma once

#include "vm/tiles/ops/register/map.cuh"

namespace serval::tiles {

struct Sum {
  static constexpr float kNeutral = 0;
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Max {
  static constexpr float kNeutral = -INFINITY;
  static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

// Reduces over the lanes that hold parts of one row of a row-layout tile; all of them get the result.
template <class Reduction>
__device__ __forceinline__ float reduce_pair_lanes(float v) {
#pragma unroll
  for (int distance = 1; distance < static_cast<int>(kPairLanes); distance *= 2) {
    v = Reduction::of(v, __shfl_xor_sync(kAllLanes, v, distance));
  }
  return v;
}
// Reduces over the lanes that hold parts of one column.
template <class Reduction>
__device__ __forceinline__ float reduce_single_lanes(float v) {
#pragma unroll
  for (int distance = kPairLanes; distance < static_cast<int>(kWarpThreads); distance *= 2) {
    v = Reduction::of(v, __shfl_xor_sync(kAllLanes, v, distance));
  }
  return v;
}

// dst[c] = the reduction of dst[c] and those elements of src[., c] that this lane holds.
template <class Reduction, AccumulatorTile Tile>
__device__ __forceinline__ void accumulate_columns(ColumnVector<Tile>& dst, const Tile& src) {
#pragma unroll
  for (int c = 0; c < Tile::kQuadrantCols; ++c) {
    float2& v = dst.quadrant[c];
#pragma unroll
    for (int r = 0; r < Tile::kQuadrantRows; ++r) {
      v = {Reduction::of(v.x, src.quadrant[r][c].x), Reduction::of(v.y, src.quadrant[r][c].y)};
    }
  }
}
// dst[r] = the reduction of dst[r] and those elements of src[r, .] that this lane holds.
template <class Reduction, AccumulatorTile Tile>
__device__ __forceinline__ void accumulate_rows(RowVector<Tile>& dst, const Tile& src) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
    float& v = dst.quadrant[r];
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c)
      v = Reduction::of(v, Reduction::of(src.quadrant[r][c].x, src.quadrant[r][c].y));
  }
}
// Completes these vectors over the lanes.
template <class Reduction, int kLength>
__device__ __forceinline__ void reduce_lanes(RegisterVector<float, kLength, Along::kSingles>& v) {
#pragma unroll
  for (float& of_lane : v.quadrant) of_lane = reduce_pair_lanes<Reduction>(of_lane);
}
template <class Reduction, int kLength>
__device__ __forceinline__ void reduce_lanes(RegisterVector<float, kLength, Along::kPairs>& v) {
#pragma unroll
  for (float2& pair : v.quadrant) {
    pair = {reduce_single_lanes<Reduction>(pair.x), reduce_single_lanes<Reduction>(pair.y)};
  }
}
// dst[c] = the reduction of src[., c]
template <class Reduction, AccumulatorTile Tile>
__device__ __forceinline__ void reduce_columns(ColumnVector<Tile>& dst, const Tile& src) {
  fill(dst, Reduction::kNeutral);
  accumulate_columns<Reduction>(dst, src);
  reduce_lanes<Reduction>(dst);
}
// dst[r] = the reduction of src[r, .]
template <class Reduction, AccumulatorTile Tile>
__device__ __forceinline__ void reduce_rows(RowVector<Tile>& dst, const Tile& src) {
  fill(dst, Reduction::kNeutral);
  accumulate_rows<Reduction>(dst, src);
  reduce_lanes<Reduction>(dst);
}

// The sums of the elements up to and including each one, of 64 elements: lane l has elements 2 l and 2 l + 1.
// In a fixed order.
__device__ __forceinline__ float2 cumulative_sums(float2 v, uint32_t lane = lane_id()) {
  float sum = v.x + v.y;
#pragma unroll
  for (uint32_t distance = 1; distance < kWarpThreads; distance *= 2) {
    const float before = __shfl_up_sync(kAllLanes, sum, distance);
    if (lane >= distance) sum += before;
  }
  const float before = __shfl_up_sync(kAllLanes, sum, 1);
  const float first = lane == 0 ? v.x : before + v.x;
  return {first, sum};
}

}  // namespace serval::tiles
