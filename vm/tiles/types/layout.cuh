// How the tensor cores distribute a tile over the 32 lanes of a warp.
//
// Everything is built from quadrants of 8×8 elements, four of which make a base tile of 16×16. In a quadrant
// a lane holds one pair of neighbours:
//
//   kRow   row lane / 4, columns 2 (lane mod 4) and the next: mma's operand A and its accumulator
//   kCol   column lane / 4, rows 2 (lane mod 4) and the next: mma's operand B
//
// With 8-bit elements a quadrant has 8×16 of them, and a lane holds columns 4 (lane mod 4) and the next three
// of its row: operand A of a warpgroup's products.
#pragma once

#include <cstdint>

#include "vm/warp.h"

namespace serval::tiles {

inline constexpr int kQuadrant = 8;   // rows and columns of a quadrant
inline constexpr int kBaseTile = 16;  // rows and columns of a base tile
// Lanes of a quadrant along the dimension of the pairs; they hold two elements each. Along the other
// dimension there are eight lanes with one element each.
inline constexpr uint32_t kPairLanes = 4;

enum class Layout : uint8_t { kRow, kCol };

// Operations take the lane as their last argument, so that callers can pass a value that is opaque to the
// compiler. Otherwise it would hoist all address arithmetic to the top of an interpreter's loop, where it
// costs registers in every instruction.
__device__ __forceinline__ uint32_t lane_id() {
  return threadIdx.x % kWarpThreads;
}

// Position in a quadrant of element `i` (0 or 1) of a lane's pair.
template <Layout kLayout>
constexpr __host__ __device__ uint32_t row_in_quadrant(uint32_t lane, uint32_t i) {
  return kLayout == Layout::kRow ? lane / kPairLanes : 2 * (lane % kPairLanes) + i;
}
template <Layout kLayout>
constexpr __host__ __device__ uint32_t col_in_quadrant(uint32_t lane, uint32_t i) {
  return kLayout == Layout::kRow ? 2 * (lane % kPairLanes) + i : lane / kPairLanes;
}

}  // namespace serval::tiles
