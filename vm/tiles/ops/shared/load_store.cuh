// Between shared memory and registers, by one warp.
#pragma once

#include "vm/tiles/ptx_mma.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Which quadrants ldmatrix and stmatrix move at a time: kRowStep × (4 / kRowStep). Lanes 8 i to 8 i + 7 give
// the addresses of the rows of the i-th; those along the rows come one after the other if kRowsFirst, and so
// do their registers.
template <int kRowStepOf, bool kRowsFirst>
struct Fours {
  static constexpr int kRowStep = kRowStepOf, kColStep = 4 / kRowStep;
  static constexpr __host__ __device__ int row(int i) { return kRowsFirst ? i % kRowStep : i / kColStep; }
  static constexpr __host__ __device__ int col(int i) { return kRowsFirst ? i / kRowStep : i % kColStep; }
};
template <class Tile>
inline constexpr int kFoursRows = Tile::kQuadrantRows % 2 == 0 ? 2 : 1;

// Calls fn(r, c, row, col) for each four quadrants of a tile: (r, c) is the first of them, and (row, col) the
// element at which the row begins that this lane gives the address of.
template <class Tile, class Four, class Fn>
__device__ __forceinline__ void for_fours(uint32_t lane, Fn&& fn) {
  static_assert(Tile::kQuadrantCols % Four::kColStep == 0, "quadrants come by fours");
  const int i = static_cast<int>(lane) / kQuadrant;
  const int row = Four::row(i) * kQuadrant + static_cast<int>(lane) % kQuadrant;
  const int col = Four::col(i) * kQuadrant;
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; r += Four::kRowStep) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; c += Four::kColStep)
      fn(r, c, r * kQuadrant + row, c * kQuadrant + col);
  }
}

template <class Four, class Dst, class Src>
__device__ __forceinline__ void load_fours(Dst& dst, const Src& src, uint32_t lane) {
  for_fours<Dst, Four>(lane, [&](int r, int c, int row, int col) {
    uint32_t four[4];
    ptx::load_matrices<Dst::kLayout == Layout::kCol>(four, src.at(row, col));
#pragma unroll
    for (int i = 0; i < 4; ++i) dst.quadrant[r + Four::row(i)][c + Four::col(i)] = four[i];
  });
}

// dst = src, for use as the left operand of a product: the quadrants of a base tile come in the order of
// mma's registers.
template <OperandTile Dst, SharedTileFor<Dst> Src>
__device__ __forceinline__ void load_left(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  load_fours<Fours<kFoursRows<Dst>, Dst::kLayout == Layout::kRow>>(dst, src, lane);
}
// The same as the right operand: two quadrants side by side along the terms of the product belong together.
template <OperandTile Dst, SharedTileFor<Dst> Src>
__device__ __forceinline__ void load_right(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  load_fours<Fours<kFoursRows<Dst>, Dst::kLayout == Layout::kCol>>(dst, src, lane);
}

// dst = src
template <OperandTile Src, SharedTileFor<Src> Dst>
__device__ __forceinline__ void store(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  using Four = Fours<kFoursRows<Src>, Src::kLayout == Layout::kRow>;
  for_fours<Src, Four>(lane, [&](int r, int c, int row, int col) {
    uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = src.quadrant[r + Four::row(i)][c + Four::col(i)];
    ptx::store_matrices<Src::kLayout == Layout::kCol>(dst.at(row, col), four);
  });
}
template <AccumulatorTile Src, SharedTileFor<Src> Dst>
__device__ __forceinline__ void store(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) {
      auto* to = dst.at(Src::row_of(lane, r, 0), Src::col_of(lane, c, 0));
      *reinterpret_cast<float2*>(to) = src.quadrant[r][c];
    }
  }
}
template <AccumulatorTile Dst, SharedTileFor<Dst> Src>
__device__ __forceinline__ void load(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
#pragma unroll
  for (int r = 0; r < Dst::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Dst::kQuadrantCols; ++c) {
      const auto* from = src.at(Dst::row_of(lane, r, 0), Dst::col_of(lane, c, 0));
      dst.quadrant[r][c] = *reinterpret_cast<const float2*>(from);
    }
  }
}

// Vectors are plain arrays in shared memory, aligned to 8 bytes.
template <class T, int kLength>
using PairVector = RegisterVector<T, kLength, Along::kPairs>;
template <class T, int kLength>
using SingleVector = RegisterVector<T, kLength, Along::kSingles>;

template <class T, int kLength>
__device__ __forceinline__ void load(PairVector<T, kLength>& dst, const T (&src)[kLength],
                                     uint32_t lane = lane_id()) {
#pragma unroll
  for (int q = 0; q < kLength / kQuadrant; ++q) {
    dst.quadrant[q] = *reinterpret_cast<const Pair<T>*>(&src[q * kQuadrant + 2 * (lane % kPairLanes)]);
  }
}
template <class T, int kLength>
__device__ __forceinline__ void load(SingleVector<T, kLength>& dst, const T (&src)[kLength],
                                     uint32_t lane = lane_id()) {
#pragma unroll
  for (int q = 0; q < kLength / kQuadrant; ++q) dst.quadrant[q] = src[q * kQuadrant + lane / kPairLanes];
}
template <class T, int kLength>
__device__ __forceinline__ void store(T (&dst)[kLength], const PairVector<T, kLength>& src,
                                      uint32_t lane = lane_id()) {
  if (lane >= kPairLanes) return;
#pragma unroll
  for (int q = 0; q < kLength / kQuadrant; ++q) {
    *reinterpret_cast<Pair<T>*>(&dst[q * kQuadrant + 2 * lane]) = src.quadrant[q];
  }
}
template <class T, int kLength>
__device__ __forceinline__ void store(T (&dst)[kLength], const SingleVector<T, kLength>& src,
                                      uint32_t lane = lane_id()) {
  if (lane % kPairLanes != 0) return;
#pragma unroll
  for (int q = 0; q < kLength / kQuadrant; ++q) dst[q * kQuadrant + lane / kPairLanes] = src.quadrant[q];
}

}  // namespace serval::tiles
