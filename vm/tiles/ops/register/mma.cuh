// Products of register tiles on the tensor cores, accumulated in fp32.
//
// An operand is given in the layout in which the tensor cores take it: a as it stands and b transposed have
// rows along their lanes (kRow), aᵀ and b columns (kCol). The order of additions depends on the shapes only:
// k in steps of 16, first to last.
#pragma once

#include "vm/tiles/ptx_mma.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// d += a b
template <OperandTile A, OperandTile B, ProductAB<A, B> D>
__device__ __forceinline__ void mma_ab(D& d, const A& a, const B& b) {
#pragma unroll
  for (int k = 0; k < A::kQuadrantCols; k += 2) {
#pragma unroll
    for (int m = 0; m < A::kQuadrantRows; m += 2) {
      const uint32_t left[4] = {a.quadrant[m][k], a.quadrant[m + 1][k], a.quadrant[m][k + 1],
                                a.quadrant[m + 1][k + 1]};
#pragma unroll
      for (int n = 0; n < D::kQuadrantCols; ++n) {
        ptx::mma_16x8x16<typename A::ElementType>(d.quadrant[m][n], d.quadrant[m + 1][n], left,
                                                  {b.quadrant[k][n], b.quadrant[k + 1][n]});
      }
    }
  }
}

// d += a bᵀ
template <OperandTile A, OperandTile B, ProductABt<A, B> D>
__device__ __forceinline__ void mma_abt(D& d, const A& a, const B& b) {
#pragma unroll
  for (int k = 0; k < A::kQuadrantCols; k += 2) {
#pragma unroll
    for (int m = 0; m < A::kQuadrantRows; m += 2) {
      const uint32_t left[4] = {a.quadrant[m][k], a.quadrant[m + 1][k], a.quadrant[m][k + 1],
                                a.quadrant[m + 1][k + 1]};
#pragma unroll
      for (int n = 0; n < D::kQuadrantCols; ++n) {
        ptx::mma_16x8x16<typename A::ElementType>(d.quadrant[m][n], d.quadrant[m + 1][n], left,
                                                  {b.quadrant[n][k], b.quadrant[n][k + 1]});
      }
    }
  }
}

// d += aᵀ b
template <OperandTile A, OperandTile B, ProductAtB<A, B> D>
__device__ __forceinline__ void mma_atb(D& d, const A& a, const B& b) {
#pragma unroll
  for (int k = 0; k < A::kQuadrantRows; k += 2) {
#pragma unroll
    for (int m = 0; m < A::kQuadrantCols; m += 2) {
      const uint32_t left[4] = {a.quadrant[k][m], a.quadrant[k][m + 1], a.quadrant[k + 1][m],
                                a.quadrant[k + 1][m + 1]};
#pragma unroll
      for (int n = 0; n < D::kQuadrantCols; ++n) {
        ptx::mma_16x8x16<typename A::ElementType>(d.quadrant[m][n], d.quadrant[m + 1][n], left,
                                                  {b.quadrant[k][n], b.quadrant[k + 1][n]});
      }
    }
  }
}

// d += aᵀ bᵀ
template <OperandTile A, OperandTile B, ProductAtBt<A, B> D>
__device__ __forceinline__ void mma_atbt(D& d, const A& a, const B& b) {
#pragma unroll
  for (int k = 0; k < A::kQuadrantRows; k += 2) {
#pragma unroll
    for (int m = 0; m < A::kQuadrantCols; m += 2) {
      const uint32_t left[4] = {a.quadrant[k][m], a.quadrant[k][m + 1], a.quadrant[k + 1][m],
                                a.quadrant[k + 1][m + 1]};
#pragma unroll
      for (int n = 0; n < D::kQuadrantCols; ++n) {
        ptx::mma_16x8x16<typename A::ElementType>(d.quadrant[m][n], d.quadrant[m + 1][n], left,
                                                  {b.quadrant[n][k], b.quadrant[n][k + 1]});
      }
    }
  }
}

}  // namespace serval::tiles
