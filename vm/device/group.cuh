// The consumer warps as one group of threads. It runs the instructions that do not stream weight pages
// (attention, sampling, …).
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/layout/row_tiles.h"
#include "vm/program_shape.h"
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
// more (vm/device/sm90/shared.cuh).
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
  std::byte* scratch;         // kScratchBytes of shared memory, contents undefined
  void* const* operands;      // base of each tensor operand; the array lies in shared memory
  void* const* tensors;       // base of each of the program's tensors; the array lies in GPU memory
  const ProgramShape& shape;  // in shared memory
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
