// Asynchronous copies between global and shared memory, one thin function for each PTX instruction: the copy
// engine's, of one thread and any number of bytes, whose loads report to an mbarrier and whose stores are
// groups; and cp.async, of 16 bytes a thread.
#pragma once

#include <cstdint>

#include "vm/ptx/address.cuh"

namespace serval::ptx {

// --- the copy engine: `bytes` and both addresses are multiples of 16
template <class To, class Barrier>
__device__ __forceinline__ void bulk_load(To to_shared, const void* from_global, uint32_t bytes,
                                          Barrier landed) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to_shared)),
      "l"(from_global), "r"(bytes), "r"(shared_address(landed))
      : "memory");
}
// The same, of what is read once and then not for long: it is the first to make room in L2.
__device__ __forceinline__ void bulk_load_once(void* to_shared, const void* from_global, uint32_t bytes,
                                               uint64_t* landed) {
  asm volatile(
      "{.reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], policy;}" ::"r"(shared_address(to_shared)),
      "l"(from_global), "r"(bytes), "r"(shared_address(landed))
      : "memory");
}
// Policies of L2: what is read once is the first to make room; and the usual one.
__device__ __forceinline__ uint64_t read_once_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint64_t usual_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// Orders what this thread knows through the generic proxy before its later bulk copies from global memory.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
// Orders reads and writes of shared memory through the generic proxy, as far as this thread knows of them,
// before later bulk copies from or to there.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void bulk_store(void* to_global, const void* from_shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to_global),
               "r"(shared_address(from_shared)), "r"(bytes)
               : "memory");
}
// The box of a tensor map at (row, col).
template <class To, class Barrier>
__device__ __forceinline__ void tensor_load(To to_shared, const void* map, uint32_t row, uint32_t col,
                                            Barrier landed) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], "
      "[%4];" ::"r"(shared_address(to_shared)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(landed))
      : "memory");
}
// The same, where L2 keeps what comes as `policy` says.
template <class To, class Barrier>
__device__ __forceinline__ void tensor_load(To to_shared, const void* map, uint32_t row, uint32_t col,
                                            Barrier landed, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to_shared)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(landed)), "l"(policy)
      : "memory");
}
// The same of a map of several matrices, from the first of them on.
template <class To, class Barrier>
__device__ __forceinline__ void tensor_load_all(To to_shared, const void* map, uint32_t row, uint32_t col,
                                                Barrier landed, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to_shared)),
      "l"(map), "r"(col), "r"(row), "r"(0), "r"(shared_address(landed)), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void tensor_store(const void* map, uint32_t row, uint32_t col,
                                             const void* from_shared) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
               "r"(col), "r"(row), "r"(shared_address(from_shared))
               : "memory");
}
// The same, added to what is there, in fp32; subnormal numbers count as 0 and so does a subnormal sum
// (add_flushed()).
__device__ __forceinline__ void tensor_add(const void* map, uint32_t row, uint32_t col,
                                           const void* from_shared) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          map),
      "r"(col), "r"(row), "r"(shared_address(from_shared))
      : "memory");
}
__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Returns when all groups but the kPending latest are complete: visible to the threads that are told so.
template <uint32_t kPending>
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
// Returns when all groups but the kPending latest have read shared memory.
template <uint32_t kPending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

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

}  // namespace serval::ptx
