// Counters of the program in GPU memory and counts of a thread block in shared memory, and waits for them.
#pragma once

#include <cstdint>

#include "vm/device/group.cuh"
#include "vm/device/launch.h"

namespace serval::device {

// A counter of this device.
__device__ __forceinline__ uint32_t* counter_of(const BoundProgram& program, uint32_t counter) {
  return program.counters + counter * kCounterStride;
}
// Acquires the counter: writes released with its value are visible to the thread.
template <class Config>
__device__ __forceinline__ uint32_t load_counter(const uint32_t* counter) {
  return Config::kHasPeers ? ptx::load_acquire_system(counter) : ptx::load_acquire(counter);
}
// True once the growing count `have` has reached `need`; counts may wrap.
__device__ __forceinline__ bool reached(uint32_t have, uint32_t need) {
  return static_cast<int32_t>(have - need) >= 0;
}
__device__ __forceinline__ void wait_count(const uint32_t* count, uint32_t need, const ExitFlag* exit) {
  while (!reached(ptx::shared_load_acquire(count), need)) exit_if_requested(exit);
}

// Returns when each of the kCounts counts has reached `need`. For whole warps. Each lane acquires one of the
// counts; a vote orders no memory accesses, so __syncwarp makes each lane's acquire the whole warp's.
template <uint32_t kCounts>
__device__ __forceinline__ void wait_counts(const uint32_t (&counts)[kCounts], uint32_t lane, uint32_t need,
                                            const ExitFlag* exit) {
  const uint32_t* count = &counts[lane % kCounts];
  while (!__all_sync(~0u, reached(ptx::shared_load_acquire(count), need))) exit_if_requested(exit);
  __syncwarp();
}

}  // namespace serval::device
