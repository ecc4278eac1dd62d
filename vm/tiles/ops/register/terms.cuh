// Tiles whose columns are the terms of a product, loaded 16 bytes a lane.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Columns of which each lane of a row holds 16 bytes, one after the other: eight, where a tile in its own
// order has four pairs.
inline constexpr int kTermColumns = 32;

// The lane's 16 bytes of columns 32 `c` to 32 `c` + 31 of its row among the rows from 8 `eight` on.
template <RowOperand Dst>
__device__ __forceinline__ void put_terms(Dst& dst, uint32_t eight, uint32_t c, const uint4& segment) {
  constexpr uint32_t kPairs = kTermColumns / kQuadrant;
  dst.quadrant[eight][c * kPairs] = segment.x;
  dst.quadrant[eight][c * kPairs + 1] = segment.y;
  dst.quadrant[eight][c * kPairs + 2] = segment.z;
  dst.quadrant[eight][c * kPairs + 3] = segment.w;
}

}  // namespace serval::tiles
