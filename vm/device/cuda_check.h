// Calls of the CUDA runtime that did not succeed, as the project's exception. Only where the build has CUDA.
#pragma once

#include <cuda_runtime_api.h>
#include <string>

#include "vm/base/error.h"

namespace serval {

// One line: the call as it stands in the source, what CUDA says, and the error's name to look up.
[[noreturn]] inline void fail_cuda(cudaError_t status, const char* call) {
  const ErrorKind kind = status == cudaErrorMemoryAllocation ? ErrorKind::kOutOfMemory : ErrorKind::kRuntime;
  throw Error(kind, std::string("CUDA: ") + call + ": " + cudaGetErrorString(status) + " (" +
                        cudaGetErrorName(status) + ")");
}

inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next launch would report this one again
  fail_cuda(status, call);
}

}  // namespace serval

// SERVAL_CUDA_CHECK(cudaMalloc(&p, bytes)): throws Error, kOutOfMemory where GPU memory ends, else kRuntime.
#define SERVAL_CUDA_CHECK(call) ::serval::check_cuda((call), #call)
