// The consumer warps as one group of threads. It runs the instructions that do not stream weight pages
// (attention, sampling, …).
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/layout/row_tiles.h"
#include "vm/ptx/ptx.cuh"
#include "vm/reflect.h"
#include "vm/state/rows.h"
#include "vm/warp.h"

namespace serval::device {

inline constexpr uint32_t kConsumerWarps = 8;
inline constexpr uint32_t kGroupThreads = kConsumerWarps * kWarpThreads;
// Rows of a pass that these kernels keep in a table in shared memory: lane r of a warp reads row r, 16 bytes
// a lane load the table, and a 32-bit word holds a set of rows. More rows would need another table, and group
// instructions that loop over it.
inline constexpr uint32_t kTableRows = kRowTile;
static_assert(kTableRows <= kWarpThreads && whole_row_tiles(kTableRows) == kTableRows);
// Shared memory that an instruction may use while it runs, aligned to kScratchAlignment; some kernels have
// more (vm/device/shared.cuh).
inline constexpr uint32_t kScratchBytes = 52 * 1024;
inline constexpr uint32_t kScratchAlignment = 1024;

// Tells the block's warps to leave the kernel: set once a launch, never cleared.
struct ExitFlag {
  uint32_t set;
};
__device__ __forceinline__ bool exit_requested(const ExitFlag* flag) {
  return *reinterpret_cast<const volatile uint32_t*>(&flag->set) != 0;
}
__device__ __forceinline__ void request_exit(ExitFlag* flag) {
  *reinterpret_cast<volatile uint32_t*>(&flag->set) = 1;
}
// Leaves the kernel if the launch has been given up or is over. Call it only in loops that wait: a waiting
// warp holds nothing that another warp needs in order to leave.
__device__ __forceinline__ void exit_if_requested(const ExitFlag* flag) {
  if (exit_requested(flag)) ptx::exit_thread();
}

// Waits for a phase of an mbarrier.
__device__ __forceinline__ void wait_phase(uint64_t* barrier, uint32_t parity, const ExitFlag* flag) {
  while (!ptx::mbarrier_try_wait(barrier, parity)) exit_if_requested(flag);
}

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

// Argument of an instruction's `run`, which all kGroupThreads threads call together. When the last of them
// has returned, the interpreter signals: everything stored by then is visible to those that wait for the
// signals.
//
// `run` is called once the inputs may be read. An instruction that starts early is called before that: it may
// at once write scratch memory and read what no instruction of this pass writes (the pass's rows, the block
// table, and what earlier passes left in the KV cache). For everything else it calls wait_inputs() first; if
// it starts before the gate (vm/device/op.cuh), also for the pass's rows.
struct Group {
  uint32_t thread;  // 0 to kGroupThreads - 1
  uint32_t warp;    // 0 to kConsumerWarps - 1
  uint32_t lane;
  std::byte* scratch;     // kScratchBytes of shared memory, contents undefined
  void* const* operands;  // base of each tensor operand; the array lies in shared memory
  void* const* tensors;   // base of each of the program's tensors; the array lies in GPU memory
  const PassRow*
      rows;  // rows of this pass: [kTableRows] in shared memory, or all in GPU memory (Config::kSharedRows)
  uint64_t* inputs;  // mbarrier whose phase ends when the inputs may be read
  uint32_t inputs_parity;
  uint64_t* barrier;         // kConsumerWarps arrivals
  uint32_t* barrier_parity;  // this thread's
  const ExitFlag* exit;

  // Base of a tensor operand: group.tensor<&Attention::q, const uint16_t>().
  template <auto Member, class T>
  __device__ __forceinline__ T* tensor() const {
    return static_cast<T*>(operands[operand_index<Member>()]);
  }
  // Base of the peers' tensor on `device`.
  template <class T>
  __device__ __forceinline__ T* tensor_on(PeerTensors peers, uint32_t device) const {
    return static_cast<T*>(tensors[peers.on(device).index]);
  }
  __device__ __forceinline__ void wait_inputs() const { wait_phase(inputs, inputs_parity, exit); }
  // Barrier of all threads of the group; orders their accesses to shared and global memory. It is no named
  // barrier, so that a warp that leaves the kernel does not block the others.
  __device__ __forceinline__ void sync() const {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(barrier);
    wait_phase(barrier, *barrier_parity, exit);
    *barrier_parity ^= 1;
  }
};

}  // namespace serval::device
