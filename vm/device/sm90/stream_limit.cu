#include <algorithm>
#include <array>

#include "vm/device/cuda_resources.h"
#include "vm/device/stream_limit.h"
#include "vm/machine.h"
#include "vm/ptx/ptx.cuh"

namespace serval {
namespace {

constexpr uint32_t kPagesInFlight = 12;
constexpr uint32_t kRingBytes = kPagesInFlight * kPageBytes;
constexpr size_t kLeastBytes = size_t{256} << 20;  // several times the size of the L2 cache
constexpr size_t kBytes = size_t{2} << 30;
constexpr int kRuns = 7;
constexpr double kMillisecondsPerSecond = 1e3;
constexpr double kGigabyte = 1e9;

// Block b loads pages b, b + blocks, … and ignores their contents.
__global__ void stream_pages(const std::byte* from, uint64_t num_pages) {
  extern __shared__ __align__(1024) std::byte ring[];
  __shared__ uint64_t landed[kPagesInFlight];
  if (threadIdx.x != 0) return;
  for (uint64_t& barrier : landed) ptx::mbarrier_init(&barrier, 1);
  ptx::fence_mbarrier_init();
  const auto issue = [&](uint64_t page, uint32_t slot) {
    ptx::mbarrier_arrive_expect_bytes(&landed[slot], kPageBytes);
    ptx::bulk_load(ring + slot * kPageBytes, from + page * kPageBytes, kPageBytes, &landed[slot]);
  };
  uint64_t next = blockIdx.x;
  for (uint32_t slot = 0; slot < kPagesInFlight && next < num_pages; ++slot, next += gridDim.x)
    issue(next, slot);
  uint32_t slot = 0, parity = 0;
  for (uint64_t page = blockIdx.x; page < num_pages; page += gridDim.x) {
    while (!ptx::mbarrier_try_wait(&landed[slot], parity)) {
    }
    if (next < num_pages) issue(next, slot);
    next += gridDim.x;
    if (++slot == kPagesInFlight) {
      slot = 0;
      parity ^= 1;
    }
  }
}

// Half of the free memory, at most kBytes and at least kLeastBytes.
DeviceBuffer memory_to_read() {
  size_t free = 0, total = 0;
  SERVAL_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return DeviceBuffer(std::clamp(free / 2, kLeastBytes, kBytes) / kPageBytes * kPageBytes);
}

}  // namespace

double measure_stream_limit(uint32_t sms, cudaStream_t stream) {
  const DeviceBuffer memory = memory_to_read();
  SERVAL_CUDA_CHECK(cudaMemsetAsync(memory.data(), 1, memory.size(), stream));
  SERVAL_CUDA_CHECK(
      cudaFuncSetAttribute(stream_pages, cudaFuncAttributeMaxDynamicSharedMemorySize, kRingBytes));
  const CudaEvent began, ended;
  std::array<double, kRuns> times{};
  for (double& time : times) {
    began.record(stream);
    stream_pages<<<sms, 1, kRingBytes, stream>>>(memory.data(), memory.size() / kPageBytes);
    SERVAL_CUDA_CHECK(cudaGetLastError());
    ended.record(stream);
    ended.wait();
    time = CudaEvent::milliseconds(began, ended) / kMillisecondsPerSecond;
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return static_cast<double>(memory.size()) / times[kRuns / 2] / kGigabyte;
}

}  // namespace serval
