// How the tensor cores spread a tile over the 32 lanes of a warp.
//
// Everything is built from quadrants of 8×8 elements, four of which make a base tile of 16×16. In a quadrant
// a lane holds one pair of neighbours:
//
//   kRow   row lane / 4, columns 2 (lane mod 4) and the next: what mma takes as A, and what it accumulates
//   kCol   column lane / 4, rows 2 (lane mod 4) and the next: what mma takes as B
#pragma once

#include <cstdint>

#include "vm/warp.h"

namespace serval::tiles {

inline constexpr int kQuadrant = 8;   // rows and columns of a quadrant
inline constexpr int kBaseTile = 16;  // of a base tile
// Lanes side by side along the dimension of the pairs, with two elements each; along the other there are
// eight with one.
inline constexpr uint32_t kPairLanes = 4;

enum class Layout : uint8_t { kRow, kCol };

// Operations take the lane as their last argument, so that a caller can hand in one that the compiler knows
// nothing of: it would move all address arithmetic to the top of an interpreter's loop otherwise, where it
// takes registers from every instruction.
__device__ __forceinline__ uint32_t lane_id() {
  return threadIdx.x % kWarpThreads;
}

// Place in a quadrant of element `i` (0 or 1) of a lane's pair.
template <Layout kLayout>
constexpr __host__ __device__ uint32_t row_in_quadrant(uint32_t lane, uint32_t i) {
  return kLayout == Layout::kRow ? lane / kPairLanes : 2 * (lane % kPairLanes) + i;
}
template <Layout kLayout>
constexpr __host__ __device__ uint32_t col_in_quadrant(uint32_t lane, uint32_t i) {
  return kLayout == Layout::kRow ? 2 * (lane % kPairLanes) + i : lane / kPairLanes;
}

}  // namespace serval::tiles
