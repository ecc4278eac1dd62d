// Kernels of kernels/ as C functions, for beside_triton.py. Each returns 0, or prints a line and returns the
// error's exit code.
#include <cstdio>

#include "kernels/fft_convolution.h"
#include "kernels/linear_attention.h"
#include "kernels/mamba2.h"
#include "vm/base/error.h"

namespace {

template <class F>
int code_of(F&& call) {
  try {
    call();
    return 0;
  } catch (const serval::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}

}  // namespace

extern "C" {

int serval_based_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out,
                           uint32_t batch, uint32_t tokens, uint32_t heads, cudaStream_t stream) {
  return code_of([&] { serval::kernels::based_attention(q, k, v, out, {batch, tokens, heads}, stream); });
}
int serval_hedgehog_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, const uint16_t* q_map,
                              const uint16_t* k_map, uint16_t* out, uint32_t batch, uint32_t tokens,
                              uint32_t heads, cudaStream_t stream) {
  return code_of([&] {
    serval::kernels::hedgehog_attention(q, k, v, q_map, k_map, out, {batch, tokens, heads}, stream);
  });
}
int serval_mamba2(const uint16_t* c, const uint16_t* b, const uint16_t* x, const float* log_decay,
                  uint16_t* y, uint32_t batch, uint32_t tokens, uint32_t heads, uint32_t groups,
                  uint32_t state, cudaStream_t stream) {
  return code_of([&] {
    serval::kernels::mamba2(c, b, x, log_decay, y, {batch, tokens, heads, groups, state}, stream);
  });
}
int serval_pack_filter(const float* spectrum, uint32_t* packed, uint32_t heads, uint32_t length,
                       cudaStream_t stream) {
  return code_of([&] { serval::kernels::pack_filter(spectrum, packed, heads, length, stream); });
}
int serval_fft_convolution(const uint16_t* x, const uint32_t* packed, uint16_t* y, uint32_t batch,
                           uint32_t heads, uint32_t length, cudaStream_t stream) {
  return code_of([&] { serval::kernels::fft_convolution(x, packed, y, {batch, heads, length}, stream); });
}

}  // extern "C"
