// The same matrix in another type or another layout.
#pragma once

#include "vm/device/ptx.cuh"
#include "vm/tiles/ptx_mma.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Rounds to nearest, ties to even.
template <OperandTile Dst, FloatTile Src>
requires SameShape<Dst, Src> &&(Dst::kLayout == Src::kLayout) &&
    std::same_as<typename Dst::ElementType, Bf16> __device__ __forceinline__
    void convert(Dst& dst, const Src& src) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) {
      dst.quadrant[r][c] = device::ptx::pack_bf16(src.quadrant[r][c].x, src.quadrant[r][c].y);
    }
  }
}

// The other layout of the same matrix: what a product gave becomes an operand.
template <OperandTile Dst, OperandTile Src>
requires SameElement<Dst, Src> && SameShape<Dst, Src> &&
    (Dst::kLayout != Src::kLayout) __device__ __forceinline__ void swap_layout(Dst& dst, const Src& src) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) dst.quadrant[r][c] = ptx::transpose_8x8(src.quadrant[r][c]);
  }
}

}  // namespace serval::tiles
