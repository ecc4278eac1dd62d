// gemm_bf16() of kernels/gemm.h.
#include "kernels/gemm_launch.cuh"

namespace serval::kernels {

void gemm_bf16(const uint16_t* a, const uint16_t* b, uint16_t* c, GemmShape shape, cudaStream_t stream) {
  launch_gemm(reinterpret_cast<const Bf16*>(a), reinterpret_cast<const Bf16*>(b), reinterpret_cast<Bf16*>(c),
              1, shape, stream);
}

}  // namespace serval::kernels
