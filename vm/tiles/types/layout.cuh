// How the tensor cores spread a tile over the 32 lanes of a warp.
//
// Everything is built from quadrants of 8×8 elements, four of which make a base tile of 16×16. In a quadrant
// a lane holds one pair of neighbours. Along one dimension, the pair's, there are four lanes (lane mod 4)
// with two elements each; along the other, eight lanes (lane / 4) with one each:
//
//   kRow   row lane / 4, columns 2 (lane mod 4) and the next: what mma takes as A, and what it accumulates
//   kCol   column lane / 4, rows 2 (lane mod 4) and the next: what mma takes as B
//
// A lane's elements of several quadrants are usually far from each other. With Order::kWide they are eight
// neighbours instead, 16 bytes of bf16 that one load brings: a span of 32 elements along the pair's dimension
// or of 64 along the other is dealt out to the lanes in runs of eight. That renames rows or columns, which is
// no loss where a product sums over them, and where it does not, the result carries the order on in its type.
#pragma once

#include <cstdint>

namespace serval::tiles {

inline constexpr uint32_t kLanes = 32;
inline constexpr int kQuadrant = 8;   // rows and columns of a quadrant
inline constexpr int kBaseTile = 16;  // of a base tile
inline constexpr int kWideRun = 8;    // neighbours that a lane holds with Order::kWide
inline constexpr int kPairLanes = 4;
inline constexpr int kSingleLanes = 8;
inline constexpr int kPairSpan =
    kPairLanes * kWideRun;  // elements that wide runs of the pair's dimension cover
inline constexpr int kSingleSpan = kSingleLanes * kWideRun;  // and of the other

enum class Layout : uint8_t { kRow, kCol };
enum class Order : uint8_t { kNatural, kWide };

__device__ __forceinline__ uint32_t lane_id() {
  return threadIdx.x % kLanes;
}

// Position along the pair's dimension of element `i` (0 or 1) of quadrant `quadrant` in this lane.
template <Order kOrder>
constexpr __host__ __device__ uint32_t pair_position(uint32_t lane, uint32_t quadrant, uint32_t i) {
  const uint32_t at = lane % kPairLanes;
  if constexpr (kOrder == Order::kNatural) return quadrant * kQuadrant + 2 * at + i;
  constexpr uint32_t kQuadrants = kPairSpan / kQuadrant;  // of a span
  return quadrant / kQuadrants * kPairSpan + at * kWideRun + quadrant % kQuadrants * 2 + i;
}

// Position along the other dimension.
template <Order kOrder>
constexpr __host__ __device__ uint32_t single_position(uint32_t lane, uint32_t quadrant) {
  const uint32_t at = lane / kPairLanes;
  if constexpr (kOrder == Order::kNatural) return quadrant * kQuadrant + at;
  constexpr uint32_t kQuadrants = kSingleSpan / kQuadrant;
  return quadrant / kQuadrants * kSingleSpan + at * kWideRun + quadrant % kQuadrants;
}

}  // namespace serval::tiles
