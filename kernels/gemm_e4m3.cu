// gemm_e4m3() of kernels/gemm.h.
#include "kernels/gemm_launch.cuh"

namespace serval::kernels {

void gemm_e4m3(const uint8_t* a, const uint8_t* b, uint16_t* c, float scale, GemmShape shape,
               cudaStream_t stream) {
  // At 4,096 and 8,192 faster than clusters of two blocks, at 16,384 as fast.
  launch_gemm<E4m3, 1>(reinterpret_cast<const E4m3*>(a), reinterpret_cast<const E4m3*>(b),
                       reinterpret_cast<Bf16*>(c), scale, shape, stream);
}

}  // namespace serval::kernels
