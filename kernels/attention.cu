// attention() of kernels/attention.h.
#include "kernels/attention_launch.cuh"

namespace serval::kernels {

void attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float scale,
               const AttentionShape& shape, cudaStream_t stream) {
  launch_attention<false>(q, k, v, out, scale, shape, stream);
}

}  // namespace serval::kernels
