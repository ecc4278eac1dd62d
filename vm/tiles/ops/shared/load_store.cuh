// Copies between shared memory and registers by one warp.
#pragma once

#include "vm/ptx/ptx.cuh"
#include "vm/tiles/ops/register/terms.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// The four quadrants that ldmatrix and stmatrix move at a time: kRowStep × (4 / kRowStep). Lanes 8 i to 8 i +
// 7 give the row addresses of quadrant i. With kRowsFirst, quadrants (and their registers) are numbered along
// the rows first.
template <int kRowStepOf, bool kRowsFirst>
struct QuadrantQuad {
  static constexpr uint32_t kRowStep = kRowStepOf, kColStep = 4 / kRowStep;
  static constexpr __host__ __device__ uint32_t row(uint32_t i) {
    return kRowsFirst ? i % kRowStep : i / kColStep;
  }
  static constexpr __host__ __device__ uint32_t col(uint32_t i) {
    return kRowsFirst ? i / kRowStep : i % kColStep;
  }
};
template <class Tile>
inline constexpr int kQuadRows = Tile::kQuadrantRows % 2 == 0 ? 2 : 1;

// Calls fn(r, c, address) for each four quadrants of a tile: (r, c) is the first quadrant, `address` the
// address of the row that this lane passes to ldmatrix or stmatrix.
template <class Tile, class Four, class Shared, class Fn>
__device__ __forceinline__ void for_quads(const Shared& shared, uint32_t first_col, uint32_t lane, Fn&& fn) {
  static_assert(Tile::kQuadrantCols % Four::kColStep == 0, "quadrants come by fours");
  constexpr uint32_t kBytes = sizeof(typename Shared::ElementType);
  const uint32_t i = lane / kQuadrant % 4;
  const uint32_t first =
      ptx::shared_address(shared.at(Four::row(i) * kQuadrant + lane % kQuadrant, Four::col(i) * kQuadrant));
#pragma unroll
  for (uint32_t r = 0; r < Tile::kQuadrantRows; r += Four::kRowStep) {
#pragma unroll
    for (uint32_t c = 0; c < Tile::kQuadrantCols; c += Four::kColStep)
      fn(r, c, Shared::template moved<kBytes>(first, r * kQuadrant, first_col + c * kQuadrant));
  }
}

template <class Four, class Dst, class Src>
__device__ __forceinline__ void load_quads(Dst& dst, const Src& src, uint32_t first_col, uint32_t lane) {
  for_quads<Dst, Four>(src, first_col, lane, [&](uint32_t r, uint32_t c, uint32_t address) {
    uint32_t four[4];
    ptx::load_matrices<Dst::kLayout == Layout::kCol>(four, address);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) dst.quadrant[r + Four::row(i)][c + Four::col(i)] = four[i];
  });
}

// dst = src as the left operand of a product: quadrants of a base tile are in the order of mma's registers.
template <OperandTile Dst, SharedTileFor<Dst> Src>
__device__ __forceinline__ void load_left(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  load_quads<QuadrantQuad<kQuadRows<Dst>, Dst::kLayout == Layout::kRow>>(dst, src, 0, lane);
}
// dst = src as the right operand of a product: quadrants that are neighbours along the product's terms form a
// pair.
template <OperandTile Dst, SharedTileFor<Dst> Src>
__device__ __forceinline__ void load_right(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  load_quads<QuadrantQuad<kQuadRows<Dst>, Dst::kLayout == Layout::kCol>>(dst, src, 0, lane);
}
// dst = the columns of src that begin at `first`, a multiple of 16.
template <OperandTile Dst, SharedTileAround<Dst> Src>
__device__ __forceinline__ void load_right_columns(Dst& dst, const Src& src, uint32_t first,
                                                   uint32_t lane = lane_id()) {
  load_quads<QuadrantQuad<kQuadRows<Dst>, Dst::kLayout == Layout::kCol>>(dst, src, first, lane);
}

// dst = src with permuted columns, as in load_terms() from global memory.
template <RowOperand Dst, SharedTileFor<Dst> Src>
requires std::same_as<typename Src::Swizzle, TermSwizzle> __device__ __forceinline__ void load_terms(
    Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  constexpr uint32_t kBytes = sizeof(typename Src::ElementType);
  const uint32_t first =
      ptx::shared_address(src.at(lane / kPairLanes % kQuadrant, lane % kPairLanes * Src::kSegmentElements));
#pragma unroll
  for (uint32_t r = 0; r < Dst::kQuadrantRows; ++r) {
#pragma unroll
    for (uint32_t c = 0; c < Dst::kCols / kTermColumns; ++c)
      put_terms(dst, r, c,
                ptx::shared_load(Src::template moved<kBytes>(first, r * kQuadrant, c * kTermColumns)));
  }
}

// dst = src
template <OperandTile Src, SharedTileFor<Src> Dst>
__device__ __forceinline__ void store(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  using Four = QuadrantQuad<kQuadRows<Src>, Src::kLayout == Layout::kRow>;
  for_quads<Src, Four>(dst, 0, lane, [&](uint32_t r, uint32_t c, uint32_t address) {
    uint32_t four[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) four[i] = src.quadrant[r + Four::row(i)][c + Four::col(i)];
    ptx::store_matrices<Src::kLayout == Layout::kCol>(address, four);
  });
}

// Calls fn(r, c, offset) for each quadrant of an accumulator; `offset` is that of the lane's pair.
template <AccumulatorTile Tile, SharedTileFor<Tile> Shared, class Fn>
__device__ __forceinline__ void for_pairs(uint32_t lane, Fn&& fn) {
  const uint32_t first = Shared::offset(Tile::row_of(lane, 0, 0), Tile::col_of(lane, 0, 0));
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c)
      fn(r, c, Shared::template moved<1>(first, r * kQuadrant, c * kQuadrant));
  }
}
template <AccumulatorTile Src, SharedTileFor<Src> Dst>
__device__ __forceinline__ void store(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  for_pairs<Src, Dst>(lane, [&](int r, int c, uint32_t offset) {
    *reinterpret_cast<float2*>(dst.data + offset) = src.quadrant[r][c];
  });
}
template <AccumulatorTile Dst, SharedTileFor<Dst> Src>
__device__ __forceinline__ void load(Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  for_pairs<Dst, Src>(lane, [&](int r, int c, uint32_t offset) {
    dst.quadrant[r][c] = *reinterpret_cast<const float2*>(src.data + offset);
  });
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
