// Matrix products on a Hopper GPU: c = a × bᵀ, as a linear layer multiplies (b: a row for each output).
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// All matrices are row-major and contiguous, in GPU memory, and begin at multiples of 16 bytes:
// a [m, k], b [n, k], c [m, n]. Any m, n and k of at least 1, but n and the bytes of a row of a and b must be
// multiples of 8 elements of c and of 16 bytes: n % 8 == 0, k % 8 == 0 (bf16) or k % 16 == 0 (e4m3).
struct GemmShape {
  uint32_t m, n, k;
};

// bf16 operands and results (bit patterns), sums in fp32. Begins in `stream`. Throws Error: kUsage for a
// shape or an address that breaks these rules, kRuntime if CUDA refuses. The same input gives the same bits.
void gemm_bf16(const uint16_t* a, const uint16_t* b, uint16_t* c, GemmShape shape, cudaStream_t stream);

// e4m3 operands (bit patterns); c = scale × (a × bᵀ) in bf16. The tensor cores' sums keep about 13 bits.
void gemm_e4m3(const uint8_t* a, const uint8_t* b, uint16_t* c, float scale, GemmShape shape,
               cudaStream_t stream);

}  // namespace serval::kernels
