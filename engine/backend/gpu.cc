#include "engine/backend/gpu.h"

#include <cuda_runtime_api.h>

#include "fmt/format.h"

#include "vm/device/cuda_check.h"

namespace serval {
namespace {

// The kernels are compiled for this architecture alone (cmake/Cuda.cmake).
constexpr int kMajor = 9;
constexpr int kMinor = 0;

[[noreturn]] void fail(const std::string& reason) {
  throw Error(ErrorKind::kRuntime, reason);
}

// CUDA counts versions as 1000 × major + 10 × minor.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void check_driver(cudaError_t status) {
  if (status == cudaErrorNoDevice) fail("no NVIDIA GPU on this machine");
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) fail("no NVIDIA driver on this machine");
    fail(fmt::format("the NVIDIA driver supports CUDA {}; needed: {}", version_text(driver),
                     version_text(CUDART_VERSION)));
  }
  check_cuda(status, "cudaGetDeviceCount");
}

int attribute(cudaDeviceAttr name, int index) {
  int value = 0;
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&value, name, index));
  return value;
}

}  // namespace

Gpu find_gpu(int index) {
  int count = 0;
  check_driver(cudaGetDeviceCount(&count));
  if (index >= count) fail(fmt::format("no GPU {}; this machine has {}", index, count));
  cudaDeviceProp properties{};
  SERVAL_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
  if (major != kMajor || minor != kMinor) {
    fail(fmt::format("{} has compute capability {}.{}; needed: {}.{} (Hopper: H100, H200)", properties.name,
                     major, minor, kMajor, kMinor));
  }
  return {index, properties.name, static_cast<uint32_t>(attribute(cudaDevAttrMultiProcessorCount, index))};
}

uint64_t free_gpu_memory() {
  size_t free = 0, total = 0;
  SERVAL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace serval
