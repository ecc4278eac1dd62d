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
  uint32_t here;     // warps that have come to the record
  uint32_t verdict;  // kUndecided until it is final
  uint64_t done;     // an mbarrier: warps that multiply no more

  static constexpr uint32_t kUndecided = 0, kBegins = 1, kLeaves = 2;

  __device__ __forceinline__ void init() {
    here = 0;
    verdict = kUndecided;
    ptx::mbarrier_init(&done, kWarpgroupWarps);
  }
  // Leaves the kernel, unless all warps are here or will be. For whole warps.
  __device__ __forceinline__ void begin(uint32_t lane, const ExitFlag* exit) {
    uint32_t decided = kBegins;
    if (lane == 0) {
      const bool is_last = ptx::shared_fetch_add_acquire_release(&here, 1) == kWarpgroupWarps - 1;
      if (is_last) decide(kBegins);
      while ((decided = ptx::shared_load_acquire(&verdict)) == kUndecided) {
        if (exit_requested(exit)) decide(kLeaves);
      }
    }
    if (__shfl_sync(kAllLanes, decided, 0) == kLeaves) ptx::exit_thread();
  }
  // Returns when no warp multiplies any more; each comes here once.
  __device__ __forceinline__ void end(uint32_t lane) {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&done);
    while (!ptx::mbarrier_try_wait(&done, 0)) {
    }
    __syncwarp();
  }

 private:
  // The first decision holds.
  __device__ __forceinline__ void decide(uint32_t for_what) {
    atomicCAS_block(&verdict, kUndecided, for_what);
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
