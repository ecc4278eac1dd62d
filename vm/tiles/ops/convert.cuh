// The same matrix in another type or another layout.
#pragma once

#include "vm/device/ptx.cuh"
#include "vm/tiles/ptx_mma.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Rounds to nearest, ties to even.
template <OperandTile Dst, FloatTile Src>
requires SamePlaces<Dst, Src> && std::same_as<typename Dst::ElementType, Bf16> __device__ __forceinline__ void
convert(Dst& dst, const Src& src) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) {
      dst.quadrant[r][c] = device::ptx::pack_bf16(src.quadrant[r][c].x, src.quadrant[r][c].y);
    }
  }
}

// The other layout of the same matrix: what a product gave as an accumulator becomes an operand.
template <OperandTile Dst, OperandTile Src>
requires SameElement<Dst, Src> && SameShape<Dst, Src> &&(Dst::kLayout != Src::kLayout) &&
    (Src::kRowOrder == Order::kNatural) && (Src::kColOrder == Order::kNatural) &&
    (Dst::kRowOrder == Order::kNatural) &&
    (Dst::kColOrder == Order::kNatural) __device__ __forceinline__
    void swap_layout(Dst& dst, const Src& src) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) dst.quadrant[r][c] = ptx::transpose_8x8(src.quadrant[r][c]);
  }
}

// Pairs the rows that a stage holds.
template <OperandOf<Layout::kCol> Dst, class T, int kRows, int kCols>
requires std::same_as<Dst, RegisterTile<T, kRows, kCols, Layout::kCol, Order::kNatural, Order::kWide>>
    __device__ __forceinline__ void zip(Dst& dst, const ColumnStage<T, kRows, kCols>& src) {
  constexpr uint32_t kLowHalves = 0x5410, kHighHalves = 0x7632;
  constexpr int kSpanQuadrants = kSingleSpan / kQuadrant;
#pragma unroll
  for (int r = 0; r < Dst::kQuadrantRows; ++r) {
#pragma unroll
    for (int s = 0; s < kCols / kSingleSpan; ++s) {
      const uint4 a = src.run[r][0][s], b = src.run[r][1][s];
      uint32_t* to = &dst.quadrant[r][s * kSpanQuadrants];
      to[0] = __byte_perm(a.x, b.x, kLowHalves);
      to[1] = __byte_perm(a.x, b.x, kHighHalves);
      to[2] = __byte_perm(a.y, b.y, kLowHalves);
      to[3] = __byte_perm(a.y, b.y, kHighHalves);
      to[4] = __byte_perm(a.z, b.z, kLowHalves);
      to[5] = __byte_perm(a.z, b.z, kHighHalves);
      to[6] = __byte_perm(a.w, b.w, kLowHalves);
      to[7] = __byte_perm(a.w, b.w, kHighHalves);
    }
  }
}

}  // namespace serval::tiles
