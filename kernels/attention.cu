// attention() of kernels/attention.h.
#include "kernels/attention_launch.cuh"

namespace serval::kernels {

void attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
               float scale, const AttentionShape& shape, cudaStream_t stream) {
  launch_attention<3>(q, k, v, out, log_sums, scale, shape, stream);
}

}  // namespace serval::kernels
