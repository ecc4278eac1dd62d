// Mbarriers that also count the bytes of asynchronous copies, and waits that suspend the thread; one thin
// function for each PTX instruction.
#pragma once

#include <cstdint>

#include "vm/ptx/barrier.cuh"

namespace serval::ptx {

// Makes initialised mbarriers visible to the copy engine; a block barrier must follow.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
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

// Returns when the phase of this parity is complete. The loop is one asm statement: around a loop that the
// compiler sees, ptxas would serialise a warpgroup's products. With SERVAL_WAIT_LIMIT, an unsigned number of
// tries, the thread traps instead of waiting for ever; tests are built so.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
#ifdef SERVAL_WAIT_LIMIT
  asm volatile(
      "{.reg .pred done;\n"
      ".reg .u32 tries;\n"
      "mov.u32 tries, 0;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "add.u32 tries, tries, 1;\n"
      "setp.gt.u32 done, tries, %2;\n"
      "@done trap;\n"
      "bra WAIT;\n"
      "DONE:}" ::"r"(shared_address(barrier)),
      "r"(parity), "n"(SERVAL_WAIT_LIMIT)
      : "memory");
#else
  asm volatile(
      "{.reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

}  // namespace serval::ptx
