// Mamba-2's sequence mixing on a Hopper GPU: a state space model with one decay for each head and token.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// c and b [batch, tokens, groups, state], x and y [batch, tokens, heads, 64] in bf16 (bit patterns),
// log_decay [batch, heads, tokens] in fp32; contiguous, in GPU memory, at multiples of 16 bytes. Head h reads
// c and b of group h / (heads / groups). tokens is a multiple of 64, state 64 or 128, heads / groups an even
// number.
struct Mamba2Shape {
  uint32_t batch, tokens, heads, groups, state;
};

// For each batch and head, with a state h of [state, 64] that is 0 at first:
//
//   h_t = exp(log_decay_t) h_{t-1} + b_t x_tᵀ,   y_t = c_tᵀ h_t
//
// log_decay is finite and at most 0; in the model it is Δ_t A, and x has been multiplied by Δ_t. Computed in
// the dual form (Dao and Gu, "Transformers are SSMs", 2024): in chunks of 64 tokens y = (L ∘ c bᵀ) x with the
// decays L between two tokens, and the state across chunks. L ∘ c bᵀ, decayed b and the state are rounded to
// bf16 for products; the state is summed up in fp32. Begins in `stream`. Throws Error: kUsage for arguments
// that break these rules, kRuntime if CUDA refuses. The same input gives the same bits.
void mamba2(const uint16_t* c, const uint16_t* b, const uint16_t* x, const float* log_decay, uint16_t* y,
            Mamba2Shape shape, cudaStream_t stream);

}  // namespace serval::kernels
