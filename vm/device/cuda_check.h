// Errors of the CUDA runtime as serval::Error. Only in builds with CUDA.
#pragma once

#include <cuda_runtime_api.h>
#include <string>

#include "vm/base/error.h"

namespace serval {

// One line: the call as written in the source, CUDA's message, and the error's name.
[[noreturn]] inline void fail_cuda(cudaError_t status, const char* call) {
  const ErrorKind kind = status == cudaErrorMemoryAllocation ? ErrorKind::kOutOfMemory : ErrorKind::kRuntime;
  throw Error(kind, std::string("CUDA: ") + call + ": " + cudaGetErrorString(status) + " (" +
                        cudaGetErrorName(status) + ")");
}

inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // otherwise the next launch would report this error again
  fail_cuda(status, call);
}

}  // namespace serval

// SERVAL_CUDA_CHECK(cudaMalloc(&p, bytes)): throws Error, kOutOfMemory if GPU memory is exhausted, else
// kRuntime.
#define SERVAL_CUDA_CHECK(call) ::serval::check_cuda((call), #call)
