#include "benchmarks/kernels/gemm_libraries.h"

#include <array>
#include <string>

namespace serval::benchmarks {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;

}  // namespace

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorKind::kRuntime, std::string("cuBLAS: ") + call + ": " + cublasGetStatusString(status));
}
#define SERVAL_CUBLAS_CHECK(call) check_cublas((call), #call)

CublasBf16::CublasBf16() : workspace_(kWorkspaceBytes) {
  SERVAL_CUBLAS_CHECK(cublasCreate(&handle_));
}
CublasBf16::~CublasBf16() {
  cublasDestroy(handle_);
}

// cuBLAS's matrices are column-major: it computes cᵀ = b × aᵀ.
void CublasBf16::run(const uint16_t* a, const uint16_t* b, uint16_t* c, kernels::GemmShape shape,
                     cudaStream_t stream) const {
  const float one = 1, zero = 0;
  const auto [m, n, k] = shape;
  SERVAL_CUBLAS_CHECK(cublasSetStream(handle_, stream));
  SERVAL_CUBLAS_CHECK(cublasSetWorkspace(handle_, workspace_.data(), workspace_.size()));
  SERVAL_CUBLAS_CHECK(cublasGemmEx(
      handle_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(n), static_cast<int>(m), static_cast<int>(k), &one,
      b, CUDA_R_16BF, static_cast<int>(k), a, CUDA_R_16BF, static_cast<int>(k), &zero, c, CUDA_R_16BF,
      static_cast<int>(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

CublasLtE4m3::CublasLtE4m3(kernels::GemmShape shape, bool fast_sums)
    : workspace_(kWorkspaceBytes), scale_(sizeof(float)) {
  const auto [m, n, k] = shape;
  const float one = 1;
  SERVAL_CUDA_CHECK(cudaMemcpy(scale_.data(), &one, sizeof one, cudaMemcpyHostToDevice));
  SERVAL_CUBLAS_CHECK(cublasLtCreate(&handle_));
  SERVAL_CUBLAS_CHECK(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    SERVAL_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof value));
  };
  const void* scale = scale_.data();
  set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(fast_sums ? 1 : 0));
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale);
  SERVAL_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&b_, CUDA_R_8F_E4M3, k, n, k));
  SERVAL_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&a_, CUDA_R_8F_E4M3, k, m, k));
  SERVAL_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&c_, CUDA_R_16BF, n, m, n));
  cublasLtMatmulPreference_t preference = nullptr;
  SERVAL_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  SERVAL_CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes, sizeof kWorkspaceBytes));
  std::array<cublasLtMatmulHeuristicResult_t, 4> found{};
  int count = 0;
  SERVAL_CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(handle_, product_, b_, a_, c_, c_, preference,
                                                     static_cast<int>(found.size()), found.data(), &count));
  SERVAL_CUBLAS_CHECK(cublasLtMatmulPreferenceDestroy(preference));
  for (int i = 0; i < count; ++i) algorithms_.push_back(found[static_cast<size_t>(i)].algo);
}
CublasLtE4m3::~CublasLtE4m3() {
  cublasLtMatrixLayoutDestroy(a_);
  cublasLtMatrixLayoutDestroy(b_);
  cublasLtMatrixLayoutDestroy(c_);
  cublasLtMatmulDescDestroy(product_);
  cublasLtDestroy(handle_);
}

void CublasLtE4m3::run(const uint8_t* a, const uint8_t* b, uint16_t* c, size_t algorithm,
                       cudaStream_t stream) const {
  const float one = 1, zero = 0;
  SERVAL_CUBLAS_CHECK(cublasLtMatmul(handle_, product_, &one, b, b_, a, a_, &zero, c, c_, c, c_,
                                     &algorithms_[algorithm], workspace_.data(), workspace_.size(), stream));
}

}  // namespace serval::benchmarks
