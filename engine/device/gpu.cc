#include "engine/device/gpu.h"

#include <algorithm>
#include <cuda_runtime_api.h>

#include "fmt/format.h"

#include "engine/device/gpu_requirements.h"
#include "vm/device/cuda_resources.h"

namespace serval {
namespace {

int attribute(cudaDeviceAttr name, int index) {
  int value = 0;
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&value, name, index));
  return value;
}

GpuReport report_of(int index) {
  GpuReport report;
  report.runtime_version = CUDART_VERSION;
  report.index = index;
  const cudaError_t status = cudaGetDeviceCount(&report.gpus);
  if (status == cudaErrorInsufficientDriver) {
    report.driver_suffices = false;
    if (cudaDriverGetVersion(&report.driver_version) != cudaSuccess) report.driver_version = 0;
  } else if (status == cudaErrorNoDevice) {
    report.gpus = 0;
  } else {
    check_cuda(status, "cudaGetDeviceCount");
  }
  if (!report.driver_suffices || index >= report.gpus) return report;
  cudaDeviceProp properties{};
  SERVAL_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  report.name = properties.name;
  report.major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  report.minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
  return report;
}

void reach_memory(int from, int to) {
  int can = 0;
  SERVAL_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
  if (can == 0) {
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("gpus: GPU {} cannot reach the memory of GPU {}; expected GPUs that NVLink connects",
                    from, to));
  }
  use_gpu(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  (void)cudaGetLastError();
  if (status != cudaErrorPeerAccessAlreadyEnabled) check_cuda(status, "cudaDeviceEnablePeerAccess");
}

}  // namespace

Gpu find_gpu(int index) {
  const GpuReport report = report_of(index);
  require_usable(report);
  return {index, report.name, static_cast<uint32_t>(attribute(cudaDevAttrMultiProcessorCount, index))};
}

std::vector<Gpu> find_gpus(std::span<const int> indices) {
  std::vector<Gpu> gpus;
  for (const int index : indices) {
    Gpu gpu = find_gpu(index);
    gpu.sms /= static_cast<uint32_t>(std::ranges::count(indices, index));
    gpus.push_back(std::move(gpu));
  }
  for (const Gpu& gpu : gpus) {
    if (gpu.sms != gpus.front().sms) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("gpus: GPU {} has {} SMs for a rank, GPU {} has {}; expected as many",
                              gpu.index, gpu.sms, gpus.front().index, gpus.front().sms));
    }
    for (const Gpu& other : gpus) {
      if (other.index != gpu.index) reach_memory(gpu.index, other.index);
    }
  }
  return gpus;
}

uint64_t free_gpu_memory(std::span<const Gpu> gpus) {
  uint64_t least = UINT64_MAX;
  for (const Gpu& gpu : gpus) {
    use_gpu(gpu.index);
    const auto ranks = std::ranges::count(gpus, gpu.index, &Gpu::index);
    least = std::min(least, free_gpu_memory() / static_cast<uint64_t>(ranks));
  }
  return least;
}

uint64_t free_gpu_memory() {
  size_t free = 0, total = 0;
  SERVAL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace serval
