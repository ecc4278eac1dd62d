// Special registers and control of a thread: its index, the clocks, and its exit.
#pragma once

#include <cstdint>

namespace serval::ptx {

// Ends this thread.
__device__ __forceinline__ void exit_thread() {
  asm volatile("exit;");
}
// Suspends the thread for up to twice this time.
__device__ __forceinline__ void sleep_nanoseconds(uint32_t duration) {
  asm volatile("nanosleep.u32 %0;" ::"r"(duration));
}
// Returns when all other threads of the block have exited: a block barrier waits only for those that have
// not. None of them may use that barrier any more.
__device__ __forceinline__ void wait_for_others_to_exit() {
  asm volatile("barrier.cta.sync 0;" ::: "memory");
}

// The thread's index in its block, read again at each call, so that values computed from it in a loop stay in
// the loop. Otherwise the compiler hoists the address arithmetic of all instructions and spills.
__device__ __forceinline__ uint32_t thread_index() {
  uint32_t v;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(v));
  return v;
}
// The SM's clock, and its low word.
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
// The nanosecond clock that all SMs share; it advances in steps.
__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t v;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(v));
  return v;
}

}  // namespace serval::ptx
