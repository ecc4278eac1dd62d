// Attention forward on a Hopper GPU.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// q and out [batch, heads, length, head_dim], k and v [batch, kv_heads, length, head_dim]; head_dim is 64 or
// 128; heads is a multiple of kv_heads, whose keys and values as many successive heads share.
struct AttentionShape {
  uint32_t batch, heads, kv_heads, length, head_dim;
  bool causal;  // row i sees rows 0 to i
};

// out = softmax(scale × q kᵀ) v for each head, in bf16 (bit patterns), sums in fp32. All in GPU memory,
// contiguous, at multiples of 16 bytes, finite; out is none of the others. Begins in `stream`. Throws Error:
// kUsage for arguments that break these rules, kRuntime if CUDA refuses. The same input gives the same bits.
void attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float scale,
               const AttentionShape& shape, cudaStream_t stream);

}  // namespace serval::kernels
