// How the warps of a warpgroup leave the kernel when a launch is aborted during attention.
//
// wgmma needs all four warps. They start a record's streams together (JointStart) and then run the same
// streams: they leave at the stream that the preparer did not hand over, not when each of them sees the exit
// request.
#pragma once

#include <cstdint>

#include "vm/device/group.cuh"
#include "vm/device/sm90/shared.cuh"

namespace serval::device::planned {

// One for each warpgroup, in scratch memory.
struct JointRun {
  JointStart start;  // of the record's streams
  uint64_t done;     // mbarrier: warps that have finished all products

  __device__ __forceinline__ void init() {
    start.init();
    ptx::mbarrier_init(&done, kWarpgroupWarps);
  }
  // Returns when all four warps have finished their products. Each warp calls it once.
  __device__ __forceinline__ void end(uint32_t lane) {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&done);
    while (!ptx::mbarrier_try_wait(&done, 0)) {
    }
    __syncwarp();
  }
};

// Waits for a phase of a stream's barrier. Returns false if the preparer left before the phase was complete.
__device__ __forceinline__ bool wait_unless_left(uint64_t* ready, uint32_t parity, const uint32_t* left) {
  const auto is_ready = [&] { return __all_sync(kAllLanes, ptx::mbarrier_try_wait(ready, parity)) != 0; };
  while (!is_ready()) {
    // Once it has left, the preparer hands over no further stream.
    if (__any_sync(kAllLanes, ptx::shared_load_acquire(left) != 0)) return is_ready();
  }
  return true;
}

}  // namespace serval::device::planned
