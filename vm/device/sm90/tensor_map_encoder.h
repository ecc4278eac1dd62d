// The driver's function that encodes tensor maps, found at run time: the executable does not link the driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "vm/device/cuda_check.h"

namespace serval {

// Throws Error(kRuntime) if the driver has no such function.
inline auto tensor_map_encoder() {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kSinceCuda = 12000;
  SERVAL_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, kSinceCuda,
                                                     cudaEnableDefault, &found));
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode);
}

// Throws Error(kRuntime) unless the driver has encoded a map.
inline void check_encoded(CUresult result) {
  check_cuda(result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "cuTensorMapEncodeTiled");
}

}  // namespace serval
