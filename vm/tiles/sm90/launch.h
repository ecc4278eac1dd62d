// Host code: launches of kernels with the attributes of Hopper.
#pragma once

#include <array>
#include <cstdint>
#include <cuda_runtime_api.h>

#include "vm/device/cuda_check.h"

namespace serval::tiles {

struct LaunchShape {
  uint32_t blocks, threads;
  size_t shared_bytes = 0;  // dynamic
  uint32_t cluster = 1;     // blocks of a cluster
  // Blocks may start while the kernel before ends: the kernel calls ptx::wait_for_kernels_before().
  bool overlaps = true;
};

// Begins kernel(globals) in `stream`. Throws Error(kRuntime) if CUDA refuses the launch.
template <class Globals>
void launch(void (*kernel)(Globals), const LaunchShape& shape, const Globals& globals, cudaStream_t stream) {
  std::array<cudaLaunchAttribute, 2> attributes{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = shape.cluster;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = shape.overlaps ? 2 : 1;
  SERVAL_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, globals));
}
// Number of SMs of the current GPU.
inline uint32_t sm_count() {
  int device = 0, sms = 0;
  SERVAL_CUDA_CHECK(cudaGetDevice(&device));
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return static_cast<uint32_t>(sms);
}

}  // namespace serval::tiles
