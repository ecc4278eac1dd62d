// Causal linear attention on a Hopper GPU: out_i = Σ_{j ≤ i} (φ(q_i) · φ(k_j)) v_j, in time linear in the
// tokens.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// q and k [batch, tokens, heads, 16], v and out [batch, tokens, heads, 64] in bf16 (bit patterns),
// contiguous, in GPU memory, at multiples of 16 bytes. tokens is a multiple of 64, heads one of 4.
struct BasedShape {
  uint32_t batch, tokens, heads;
};

// Based's feature map, the Taylor series of the exponential function up to its second order (Arora et al.,
// "Simple linear attention language models balance the recall-throughput tradeoff", 2024; Zhang et al., "The
// Hedgehog & the Porcupine", 2024): with s = q_i · k_j / 4,
//
//   φ(q_i) · φ(k_j) = 1 + s + s² / 2,   φ(x) = (1, x / 2, x ⊗ x / √32)
//
// There is no division by the sum of the weights: the sum is the output for values of 1. Weights of a chunk
// of 64 tokens, features and the state of the chunks before are rounded to bf16 for products, the state is
// summed up in fp32: the error is some 2^-8 of the root of the sum of squares of what is added. Begins in
// `stream`. Throws Error: kUsage for arguments that break these rules, kRuntime if CUDA refuses. The same
// input gives the same bits.
void based_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, BasedShape shape,
                     cudaStream_t stream);

// q, k, v and out [batch, tokens, heads, 128] in bf16, likewise. tokens is a multiple of 64; any number of
// heads.
struct HedgehogShape {
  uint32_t batch, tokens, heads;
};

// Hedgehog's feature map (Zhang et al., "The Hedgehog & the Porcupine: expressive linear attentions with
// softmax mimicry", 2024), with a learnt matrix of 128 × 64 for each head, and its normalisation:
//
//   φ(x) = (softmax(x map), softmax(-x map)),   out_i = Σ_{j ≤ i} (φ(q_i) · φ(k_j)) v_j / Σ_{j ≤ i} φ(q_i) ·
//   φ(k_j)
//
// q_map and k_map [heads, 128, 64] in bf16. Features, weights and the state are rounded to bf16 for products.
// Else as based_attention().
void hedgehog_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, const uint16_t* q_map,
                        const uint16_t* k_map, uint16_t* out, HedgehogShape shape, cudaStream_t stream);

}  // namespace serval::kernels
