// Asynchronous copies between global and shared memory by the copy engine (TMA), one thin function for each
// PTX instruction. One thread issues a copy of any number of bytes; loads report to an mbarrier, stores form
// groups. Also the fences that order a thread's own accesses and these copies.
#pragma once

#include <cstdint>

#include "vm/ptx/address.cuh"

namespace serval::ptx {

// In bulk_load() and bulk_store(), `bytes` and both addresses are multiples of 16.
template <class To, class Barrier>
__device__ __forceinline__ void bulk_load(To to_shared, const void* from_global, uint32_t bytes,
                                          Barrier landed) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to_shared)),
      "l"(from_global), "r"(bytes), "r"(shared_address(landed))
      : "memory");
}
// bulk_load() of data that is not read again soon: L2 evicts it first.
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
// L2 cache policies: evict first, for data that is read once; and the default.
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
// Orders generic-proxy accesses that happen before this fence before the thread's later bulk copies from
// global memory.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
// Orders generic-proxy accesses to shared memory that happen before this fence before later bulk copies from
// or to it.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void bulk_store(void* to_global, const void* from_shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to_global),
               "r"(shared_address(from_shared)), "r"(bytes)
               : "memory");
}
// Loads the box of a tensor map at (row, col).
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
// tensor_load() with an L2 cache policy.
template <class To, class Barrier>
__device__ __forceinline__ void tensor_load(To to_shared, const void* map, uint32_t row, uint32_t col,
                                            Barrier landed, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to_shared)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(landed)), "l"(policy)
      : "memory");
}
// Loads a box of a map of several matrices (map_of_pairs()), from the first matrix on.
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
// tensor_store() that adds to the matrix in fp32. Subnormal inputs and sums are flushed to 0, as in
// add_flushed().
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
// Returns when all store groups but the kPending latest are complete: their writes are visible to threads
// that synchronise with this one.
template <uint32_t kPending>
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
// Returns when all store groups but the kPending latest have read shared memory.
template <uint32_t kPending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace serval::ptx
