// Attention as C functions, which attention_beside_cudnn.py loads. They begin it in `stream` and return 0, or
// print the error and return 1.
#include <cstdio>

#include "kernels/attention.h"
#include "vm/device/cuda_check.h"

namespace {

template <class Fn>
int without_exceptions(Fn&& fn) {
  try {
    fn();
  } catch (const serval::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace

extern "C" int serval_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out,
                                float* log_sums, float scale, const serval::kernels::AttentionShape* shape,
                                void* stream) {
  return without_exceptions([&] {
    serval::kernels::attention(q, k, v, out, log_sums, scale, *shape, static_cast<cudaStream_t>(stream));
  });
}
extern "C" size_t serval_attention_backward_scratch(const serval::kernels::AttentionShape* shape) {
  return serval::kernels::attention_backward_scratch(*shape);
}
extern "C" int serval_attention_backward(const serval::kernels::AttentionGradients* arguments, float* scratch,
                                         float scale, const serval::kernels::AttentionShape* shape,
                                         void* stream) {
  return without_exceptions([&] {
    serval::kernels::attention_backward(*arguments, scratch, scale, *shape,
                                        static_cast<cudaStream_t>(stream));
  });
}
