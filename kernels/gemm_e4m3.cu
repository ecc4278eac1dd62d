// gemm_e4m3() of kernels/gemm.h.
#include "kernels/gemm_launch.cuh"

namespace serval::kernels {

void gemm_e4m3(const uint8_t* a, const uint8_t* b, uint16_t* c, float scale, GemmShape shape,
               cudaStream_t stream) {
  launch_gemm(reinterpret_cast<const E4m3*>(a), reinterpret_cast<const E4m3*>(b), reinterpret_cast<Bf16*>(c),
              scale, shape, stream);
}

}  // namespace serval::kernels
