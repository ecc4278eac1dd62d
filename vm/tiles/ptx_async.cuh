// Asynchronous copies, one thin function for each PTX instruction.
#pragma once

#include "vm/device/ptx.cuh"

namespace serval::tiles::ptx {

using device::ptx::shared_address;

// --- cp.async: 16 bytes a thread, into groups of the thread's own

// Both addresses are multiples of 16. The data comes from L2, never from L1: it may have been written by
// another SM. Of the 16 bytes, the first `bytes` are read and the others become zeros.
__device__ __forceinline__ void copy_async_16(void* to_shared, const void* from_global, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
               "l"(from_global), "r"(bytes)
               : "memory");
}
// 8 bytes, through L1: like a weak load, it sees what was written before the block's last acquire.
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

// --- the copy engine: one thread, any number of bytes; loads report to an mbarrier (vm/device/ptx.cuh),
// stores are groups

__device__ __forceinline__ void bulk_store(void* to_global, const void* from_shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to_global),
               "r"(shared_address(from_shared)), "r"(bytes)
               : "memory");
}
// The box of a tensor map at (row, col).
__device__ __forceinline__ void tensor_load(void* to_shared, const void* map, uint32_t row, uint32_t col,
                                            uint64_t* landed) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], "
      "[%4];" ::"r"(shared_address(to_shared)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(landed))
      : "memory");
}
__device__ __forceinline__ void tensor_store(const void* map, uint32_t row, uint32_t col,
                                             const void* from_shared) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
               "r"(col), "r"(row), "r"(shared_address(from_shared))
               : "memory");
}
__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Returns when all groups but the kPending latest are complete: visible to whoever is told so.
template <uint32_t kPending>
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace serval::tiles::ptx
