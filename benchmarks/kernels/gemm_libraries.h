// cuBLAS's products of the form of kernels/gemm.h, to compare with.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <memory>
#include <vector>

#include "kernels/gemm.h"
#include "vm/device/cuda_resources.h"

namespace serval::benchmarks {

// Throws Error(kRuntime) unless cuBLAS succeeded.
void check_cublas(cublasStatus_t status, const char* call);

// c = a × bᵀ in bf16 through cublasGemmEx.
class CublasBf16 {
 public:
  CublasBf16();
  ~CublasBf16();
  CublasBf16(const CublasBf16&) = delete;
  CublasBf16& operator=(const CublasBf16&) = delete;
  void run(const uint16_t* a, const uint16_t* b, uint16_t* c, kernels::GemmShape shape,
           cudaStream_t stream) const;

 private:
  cublasHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
};

// c = a × bᵀ in e4m3 with bf16 results through cublasLt: the best of the algorithms that it proposes.
class CublasLtE4m3 {
 public:
  // fast_sums: sums stay in the tensor cores (about 13 bits); otherwise they are added up in fp32 meanwhile.
  CublasLtE4m3(kernels::GemmShape shape, bool fast_sums);
  ~CublasLtE4m3();
  CublasLtE4m3(const CublasLtE4m3&) = delete;
  CublasLtE4m3& operator=(const CublasLtE4m3&) = delete;
  size_t algorithms() const { return algorithms_.size(); }
  void run(const uint8_t* a, const uint8_t* b, uint16_t* c, size_t algorithm, cudaStream_t stream) const;

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
  DeviceBuffer workspace_, scale_;
};

}  // namespace serval::benchmarks
