// Launches the persistent kernel of an instruction set: the functions that DeviceIsa points to. Config: what
// the kernel is compiled for (vm/device/sm90/shared.cuh). Recorder: NoRecorder, or EventRecorder for the
// kernel that records.
#pragma once

#include <cuda_runtime.h>

#include "vm/device/isa.h"
#include "vm/device/sm90/kernel.cuh"

namespace serval::device {

template <class Isa, class Config, template <class> class Recorder>
int prepare_kernel() {
  static_assert(Recorder<Config>::kSharedBytes <= kMaxSharedBytes, "a block has 227 KiB of shared memory");
  return cudaFuncSetAttribute(interpret<Isa, Config, Recorder>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Recorder<Config>::kSharedBytes);
}

// A cooperative launch: all blocks run at the same time, or the launch fails.
template <class Isa, class Config, template <class> class Recorder>
int launch_kernel(const Launch& launch, unsigned sms, void* stream) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = sms;
  config.blockDim = kBlockThreads;
  config.dynamicSmemBytes = Recorder<Config>::kSharedBytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &cooperative;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, interpret<Isa, Config, Recorder>, launch);
}

template <class Isa, class Config, template <class> class Recorder>
constexpr DeviceKernel device_kernel() {
  return {launch_kernel<Isa, Config, Recorder>, prepare_kernel<Isa, Config, Recorder>};
}

}  // namespace serval::device
