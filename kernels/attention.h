// Attention on a Hopper GPU, forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// q and out [batch, heads, length, head_dim], k and v [batch, kv_heads, length, head_dim]; head_dim is 64 or
// 128; heads is a multiple of kv_heads, whose keys and values as many successive heads share.
struct AttentionShape {
  uint32_t batch, heads, kv_heads, length, head_dim;
  bool causal;  // row i sees rows 0 to i
};

// out = softmax(scale × q kᵀ) v for each head, in bf16 (bit patterns), sums in fp32. log_sums [batch, heads,
// length], in fp32, becomes ln Σ exp(scale × q kᵀ) of each row, which the backward pass needs; or it is null.
// All in GPU memory, contiguous, at multiples of 16 bytes, finite; the results are none of the others. Begins
// in `stream`. Throws Error: kUsage for arguments that break these rules, kRuntime if CUDA refuses. The same
// input gives the same bits.
void attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
               float scale, const AttentionShape& shape, cudaStream_t stream);

// Inputs and results of the backward pass, in bf16 but for log_sums: q, k, v, out and log_sums as attention()
// has them; d_out, the gradient of out; dq, dk and dv, those of q, k and v, in their shapes.
struct AttentionGradients {
  const uint16_t *q, *k, *v, *out, *d_out;
  const float* log_sums;
  uint16_t *dq, *dk, *dv;
};
// Elements of the scratch memory of attention_backward().
size_t attention_backward_scratch(const AttentionShape& shape);
// dq, dk and dv of the loss whose gradient by out is d_out. Sums are in fp32; weights and their gradients are
// rounded to bf16 before they are multiplied. scratch: GPU memory that no other call uses meanwhile. Memory,
// errors and repeated runs as with attention().
void attention_backward(const AttentionGradients& arguments, float* scratch, float scale,
                        const AttentionShape& shape, cudaStream_t stream);

}  // namespace serval::kernels
