#include "engine/device/gpu.h"

#include <algorithm>
#include <cuda_runtime_api.h>
#include <set>

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

bool can_reach_memory(int from, int to) {
  int can = 0;
  SERVAL_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
  return can != 0;
}

// Returns whether atomic additions of one GPU to the other's memory are native: signals use them.
bool adds_atomically(int from, int to) {
  int does = 0;
  SERVAL_CUDA_CHECK(cudaDeviceGetP2PAttribute(&does, cudaDevP2PAttrNativeAtomicSupported, from, to));
  return does != 0;
}

void reach_memory(int from, int to) {
  use_gpu(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  (void)cudaGetLastError();
  if (status != cudaErrorPeerAccessAlreadyEnabled) check_cuda(status, "cudaDeviceEnablePeerAccess");
}

// All ordered pairs of distinct GPUs among the indices.
std::vector<GpuGroupReport::Pair> pairs_of(std::span<const int> indices) {
  const std::set<int> gpus(indices.begin(), indices.end());
  std::vector<GpuGroupReport::Pair> pairs;
  for (const int from : gpus) {
    for (const int to : gpus) {
      if (to != from) pairs.push_back({from, to});
    }
  }
  return pairs;
}

}  // namespace

Gpu find_gpu(int index) {
  const GpuReport report = report_of(index);
  require_usable(report);
  return {index, report.name, static_cast<uint32_t>(attribute(cudaDevAttrMultiProcessorCount, index))};
}

std::vector<Gpu> find_gpus(std::span<const int> indices) {
  GpuGroupReport report;
  for (const int index : indices) report.gpus.push_back(find_gpu(index));
  const std::vector<GpuGroupReport::Pair> pairs = pairs_of(indices);
  for (const auto& pair : pairs) {
    if (!can_reach_memory(pair.from, pair.to)) {
      report.unreachable.push_back(pair);
    } else if (!adds_atomically(pair.from, pair.to)) {
      report.not_atomic.push_back(pair);
    }
  }
  std::vector<Gpu> gpus = gpus_of_ranks(report);
  for (const auto& pair : pairs) reach_memory(pair.from, pair.to);
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
