// Products of register tiles on the tensor cores, accumulated in fp32.
//
// Operands must have the layout that the tensor cores read: a and bᵀ need row layout (kRow), aᵀ and b column
// layout (kCol). The order of additions depends only on the shapes: k in steps of 16, first to last.
#pragma once

#include "vm/ptx/mma.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

namespace detail {

// Quadrant (i, j) of a tile, or of its transpose.
template <bool kTransposed, class Tile>
__device__ __forceinline__ uint32_t quadrant(const Tile& tile, int i, int j) {
  return kTransposed ? tile.quadrant[j][i] : tile.quadrant[i][j];
}

// d += a b, where a and b may be transposed.
template <bool kTransposedA, bool kTransposedB, class D, class A, class B>
__device__ __forceinline__ void multiply(D& d, const A& a, const B& b) {
  constexpr int kDepth = kTransposedA ? A::kQuadrantRows : A::kQuadrantCols;
  constexpr int kRows = kTransposedA ? A::kQuadrantCols : A::kQuadrantRows;
#pragma unroll
  for (int k = 0; k < kDepth; k += 2) {
#pragma unroll
    for (int m = 0; m < kRows; m += 2) {
      const uint32_t left[4] = {quadrant<kTransposedA>(a, m, k), quadrant<kTransposedA>(a, m + 1, k),
                                quadrant<kTransposedA>(a, m, k + 1), quadrant<kTransposedA>(a, m + 1, k + 1)};
#pragma unroll
      for (int n = 0; n < D::kQuadrantCols; ++n) {
        const uint32_t right[2] = {quadrant<kTransposedB>(b, k, n), quadrant<kTransposedB>(b, k + 1, n)};
        if constexpr (std::same_as<typename A::ElementType, Bf16>) {
          ptx::mma_16x8x16_bf16(d.quadrant[m][n], d.quadrant[m + 1][n], left, right);
        } else {
          ptx::mma_16x8x16_fp16(d.quadrant[m][n], d.quadrant[m + 1][n], left, right);
        }
      }
    }
  }
}

}  // namespace detail

// d += a b
template <OperandTile A, OperandTile B, ProductAB<A, B> D>
__device__ __forceinline__ void mma_ab(D& d, const A& a, const B& b) {
  detail::multiply<false, false>(d, a, b);
}

// d += a bᵀ
template <OperandTile A, OperandTile B, ProductABt<A, B> D>
__device__ __forceinline__ void mma_abt(D& d, const A& a, const B& b) {
  detail::multiply<false, true>(d, a, b);
}

// d += aᵀ b
template <OperandTile A, OperandTile B, ProductAtB<A, B> D>
__device__ __forceinline__ void mma_atb(D& d, const A& a, const B& b) {
  detail::multiply<true, false>(d, a, b);
}

// d += aᵀ bᵀ
template <OperandTile A, OperandTile B, ProductAtBt<A, B> D>
__device__ __forceinline__ void mma_atbt(D& d, const A& a, const B& b) {
  detail::multiply<true, true>(d, a, b);
}

}  // namespace serval::tiles
