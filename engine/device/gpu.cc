#include "engine/device/gpu.h"

#include <cuda_runtime_api.h>

#include "engine/device/gpu_requirements.h"
#include "vm/device/cuda_check.h"

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

}  // namespace

Gpu find_gpu(int index) {
  const GpuReport report = report_of(index);
  require_usable(report);
  return {index, report.name, static_cast<uint32_t>(attribute(cudaDevAttrMultiProcessorCount, index))};
}

uint64_t free_gpu_memory() {
  size_t free = 0, total = 0;
  SERVAL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace serval
