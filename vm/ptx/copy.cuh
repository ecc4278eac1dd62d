// Asynchronous copies from global to shared memory of 16 or 8 bytes a thread (cp.async), one thin function
// for each PTX instruction. Each thread has its own groups.
#pragma once

#include <cstdint>

#include "vm/ptx/address.cuh"

namespace serval::ptx {

// Both addresses are multiples of 16. Reads from L2, never from L1, because another SM may have written the
// data. Reads the first `bytes` of the 16 bytes and zeroes the others.
__device__ __forceinline__ void copy_async_16(void* to_shared, const void* from_global, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
               "l"(from_global), "r"(bytes)
               : "memory");
}
// Copies 8 bytes through L1: like a weak load, it sees what was written before the block's last acquire.
__device__ __forceinline__ void copy_async_8(void* to_shared, const void* from_global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to_shared)), "l"(from_global)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <uint32_t kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace serval::ptx
