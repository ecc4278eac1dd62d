// Stores of the 8×8 matrices that a warp holds as operands or results of products (vm/ptx/mma.cuh), one thin
// function for each PTX instruction.
#pragma once

#include <cstdint>

namespace serval::ptx {

// Stores four 8×8 matrices of 16-bit elements to shared memory, or their transposes. Lane l gives the address
// of row l mod 8 of matrix l / 8.
template <bool kTransposed>
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&from)[4]) {
  if constexpr (kTransposed) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
  }
}
// Stores the transposes of two matrices. Lane l < 16 gives the address of row l mod 8 of transpose l / 8.
__device__ __forceinline__ void store_matrices_transposed(uint32_t address, uint32_t first, uint32_t second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [%0], {%1, %2};" ::"r"(address),
               "r"(first), "r"(second)
               : "memory");
}

}  // namespace serval::ptx
