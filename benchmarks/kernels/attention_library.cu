// Attention as a C function, which attention_beside_cudnn.py loads.
#include <cstdio>

#include "kernels/attention.h"
#include "vm/base/error.h"

// Begins attention in `stream`. Returns 0, or 1 and prints the error.
extern "C" int serval_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out,
                                float scale, uint32_t batch, uint32_t heads, uint32_t kv_heads,
                                uint32_t length, uint32_t head_dim, int causal, void* stream) {
  try {
    const serval::kernels::AttentionShape shape{batch, heads, kv_heads, length, head_dim, causal != 0};
    serval::kernels::attention(q, k, v, out, scale, shape, static_cast<cudaStream_t>(stream));
  } catch (const serval::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
