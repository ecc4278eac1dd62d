// Tiles whose columns are the terms of a product, loaded 16 bytes a lane (load_terms()).
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Columns in one step of load_terms(): each lane of a row holds 16 contiguous bytes, that is eight
// neighbouring columns instead of four pairs.
inline constexpr int kTermColumns = 32;

// Puts the lane's 16 bytes of columns 32 `c` to 32 `c` + 31 into the tile; its row is one of 8 `eight` to 8
// `eight` + 7.
template <RowOperand Dst>
__device__ __forceinline__ void put_terms(Dst& dst, uint32_t eight, uint32_t c, const uint4& segment) {
  constexpr uint32_t kPairs = kTermColumns / kQuadrant;
  dst.quadrant[eight][c * kPairs] = segment.x;
  dst.quadrant[eight][c * kPairs + 1] = segment.y;
  dst.quadrant[eight][c * kPairs + 2] = segment.z;
  dst.quadrant[eight][c * kPairs + 3] = segment.w;
}

}  // namespace serval::tiles
