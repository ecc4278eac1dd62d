// Mbarriers in shared memory, one thin function for each PTX instruction.
#pragma once

#include <cstdint>

#include "vm/ptx/address.cuh"

namespace serval::ptx {

__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
// Afterwards the memory may be reused.
__device__ __forceinline__ void mbarrier_invalidate(uint64_t* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Makes initialised mbarriers visible to the copy engine; a block barrier must follow.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Barrier: a pointer or a SharedAddress.
template <class Barrier>
__device__ __forceinline__ void mbarrier_arrive_expect_bytes(Barrier barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
// Expects bytes without an arrival: the phase waits for the bytes and for an arrival that follows.
__device__ __forceinline__ void mbarrier_expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
// True if the phase of this parity is complete; may suspend the thread for a while first.
template <class Barrier>
__device__ __forceinline__ bool mbarrier_try_wait(Barrier barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// mbarrier_try_wait() that does not suspend the thread.
__device__ __forceinline__ bool mbarrier_test_wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{.reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

}  // namespace serval::ptx
