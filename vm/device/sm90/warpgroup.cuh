// What the products of a warpgroup (wgmma) require of its four warps: they start and leave together, and wait
// without leaving while products are in flight.
#pragma once

#include <cstdint>

#include "vm/device/group.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device {

// wait_phase() while a warpgroup's products are in flight, when a thread must not exit: returns also if an
// exit is requested. The warp then continues with whatever is in shared memory and leaves when its products
// are complete.
__device__ __forceinline__ void wait_phase_or_exit(uint64_t* barrier, uint32_t parity, const ExitFlag* flag) {
  asm volatile(
      "{.reg .pred done;\n"
      ".reg .u32 leave;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "ld.volatile.shared::cta.u32 leave, [%2];\n"
      "setp.ne.u32 done, leave, 0;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:}" ::"r"(ptx::shared_address(barrier)),
      "r"(parity), "r"(ptx::shared_address(&flag->set))
      : "memory");
}
// wait_phase_or_exit() for a count in shared memory that grows to `need`; counts may wrap. `seen`: a value of
// the count that is already known; returns the latest one.
__device__ __forceinline__ void wait_count_or_exit(const uint32_t* count, uint32_t need, uint32_t& seen,
                                                   const ExitFlag* flag) {
  asm volatile(
      "{.reg .pred done;\n"
      ".reg .s32 ahead;\n"
      ".reg .u32 leave;\n"
      "WAIT:\n"
      "sub.s32 ahead, %0, %2;\n"
      "setp.ge.s32 done, ahead, 0;\n"
      "@done bra DONE;\n"
      "ld.acquire.cta.shared::cta.u32 %0, [%1];\n"
      "ld.volatile.shared::cta.u32 leave, [%3];\n"
      "setp.ne.u32 done, leave, 0;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:}"
      : "+&r"(seen)
      : "r"(ptx::shared_address(count)), "r"(need), "r"(ptx::shared_address(&flag->set))
      : "memory");
}
// wait_phase_or_exit() for two barriers. Both are tested in each iteration, so that the tests overlap.
__device__ __forceinline__ void wait_phases_or_exit(uint64_t* first, uint32_t first_parity, uint64_t* second,
                                                    uint32_t second_parity, const ExitFlag* flag) {
  asm volatile(
      "{.reg .pred done, second;\n"
      ".reg .u32 leave;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 second, [%2], %3;\n"
      "and.pred done, done, second;\n"
      "@done bra DONE;\n"
      "ld.volatile.shared::cta.u32 leave, [%4];\n"
      "setp.ne.u32 done, leave, 0;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:}" ::"r"(ptx::shared_address(first)),
      "r"(first_parity), "r"(ptx::shared_address(second)), "r"(second_parity),
      "r"(ptx::shared_address(&flag->set))
      : "memory");
}

inline constexpr uint32_t kWarpgroupWarps = 4;  // warps of a warpgroup, for wgmma and setmaxnreg

// Lets the four warps of a warpgroup start something together or not at all. wgmma needs all four: if one has
// left the kernel, it is an illegal instruction. A waiting warp may leave as soon as an exit is requested,
// even after it has arrived at a barrier, so one decision is made for all four. Lies in shared memory; up to
// 2^30 starts in a launch.
struct JointStart {
  uint32_t arrivals;  // calls of begin() by warps, over all starts
  uint32_t started;   // starts so far, or kCancelled

  static constexpr uint32_t kCancelled = 0xffffffff;

  __device__ __forceinline__ void init() { arrivals = started = 0; }
  // Called by whole warps. Returns in all four once all have called it, or leaves the kernel in all four if
  // an exit is requested before that.
  __device__ __forceinline__ void begin(uint32_t lane, const ExitFlag* exit) {
    uint32_t goes_on = 0;
    __syncwarp();
    if (lane == 0) goes_on = has_started(exit) ? 1 : 0;
    if (__shfl_sync(~0U, goes_on, 0) == 0) ptx::exit_thread();
  }

 private:
  __device__ __forceinline__ bool has_started(const ExitFlag* exit) {
    const uint32_t before = ptx::shared_fetch_add_acquire_release(&arrivals, 1);
    const uint32_t number = before / kWarpgroupWarps;
    // The first of the two compare-and-swaps decides.
    if (before % kWarpgroupWarps == kWarpgroupWarps - 1) atomicCAS_block(&started, number, number + 1);
    uint32_t seen;
    while ((seen = ptx::shared_load_acquire(&started)) == number) {
      if (exit_requested(exit)) atomicCAS_block(&started, number, kCancelled);
    }
    return seen != kCancelled;
  }
};

}  // namespace serval::device
