// Asynchronous copies, one thin function for each PTX instruction.
#pragma once

#include "vm/device/ptx.cuh"

namespace serval::tiles::ptx {

using device::ptx::shared_address;

// Both addresses are multiples of 16. The data comes from L2, never from L1: it may have been written by
// another SM.
__device__ __forceinline__ void copy_async_16(void* to_shared, const void* from_global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to_shared)), "l"(from_global)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <uint32_t kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace serval::tiles::ptx
