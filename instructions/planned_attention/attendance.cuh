// How the warps of a warpgroup leave, where the launch is given up.
//
// wgmma needs all of them: with one gone, it is an illegal instruction. So they decide together whether they
// begin a record's streams, and then go through the same ones: they leave where the preparer has left without
// handing the next one over, not where each sees by itself that it is asked to.
#pragma once

#include <cstdint>

#include "vm/device/group.cuh"
#include "vm/device/shared.cuh"

namespace serval::device::planned {

// Of a warpgroup, in scratch memory.
struct Attendance {
  Meeting streams;  // at which the warps decide whether they begin the record's
  uint64_t done;    // an mbarrier: warps that multiply no more

  __device__ __forceinline__ void init() {
    streams.init();
    ptx::mbarrier_init(&done, kWarpgroupWarps);
  }
  // Returns when no warp multiplies any more; each comes here once.
  __device__ __forceinline__ void end(uint32_t lane) {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&done);
    while (!ptx::mbarrier_try_wait(&done, 0)) {
    }
    __syncwarp();
  }
};

// Waits for a phase of a stream's barrier; false if the preparer has left before it was complete.
__device__ __forceinline__ bool wait_unless_left(uint64_t* ready, uint32_t parity, const uint32_t* left) {
  const auto is_ready = [&] { return __all_sync(kAllLanes, ptx::mbarrier_try_wait(ready, parity)) != 0; };
  while (!is_ready()) {
    // It hands nothing over behind that.
    if (__any_sync(kAllLanes, ptx::shared_load_acquire(left) != 0)) return is_ready();
  }
  return true;
}

}  // namespace serval::device::planned
