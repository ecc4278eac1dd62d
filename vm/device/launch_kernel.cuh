// Starts the persistent kernel of an instruction set: what DeviceIsa points to.
#pragma once

#include <cuda_runtime.h>

#include "vm/device/kernel.cuh"

namespace serval::device {

template <class Isa>
int prepare_kernel() {
  return cudaFuncSetAttribute(interpret<Isa>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
}

// Cooperative: all blocks run at the same time, or the launch fails.
template <class Isa>
int launch_kernel(const Launch& launch, unsigned sms, void* stream) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = sms;
  config.blockDim = kBlockThreads;
  config.dynamicSmemBytes = sizeof(Shared);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &cooperative;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, interpret<Isa>, launch);
}

}  // namespace serval::device
