// A thread of the kernel: which it is, how many registers it has, what time it is, and how it ends.
#pragma once

#include <cstdint>

namespace serval::ptx {

// This thread leaves the kernel.
__device__ __forceinline__ void exit_thread() {
  asm volatile("exit;");
}
// Returns when all other threads of the block have exited: a block barrier counts those that have not. None
// of them may come to one any more.
__device__ __forceinline__ void wait_for_others_to_exit() {
  asm volatile("barrier.cta.sync 0;" ::: "memory");
}

// The thread's index in its block, read anew each time: what is computed from it in a loop stays in the loop.
// Else the compiler keeps the beginnings of all addresses of all instructions in registers, and spills.
__device__ __forceinline__ uint32_t thread_index() {
  uint32_t v;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(v));
  return v;
}
template <uint32_t kRegisters>
__device__ __forceinline__ void set_max_registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <uint32_t kRegisters>
__device__ __forceinline__ void set_max_registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// The SM's own clock, and its low word.
__device__ __forceinline__ uint64_t clock_ticks64() {
  uint64_t v;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(v));
  return v;
}
__device__ __forceinline__ uint32_t clock_ticks() {
  uint32_t v;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(v));
  return v;
}
// The clock that all SMs share; it moves in steps.
__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t v;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(v));
  return v;
}

}  // namespace serval::ptx
