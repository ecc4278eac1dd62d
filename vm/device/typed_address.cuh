// Accesses to tensors whose address carries their storage type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/device/typed_address.h"
#include "vm/ptx/convert.cuh"
#include "vm/ptx/memory.cuh"

namespace serval::device {

// number_of() the type.
template <class T>
__device__ __forceinline__ uint32_t type_of(T* address) {
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>(address) & kTypeBits);
}
template <class T>
__device__ __forceinline__ T* without_type(T* address) {
  return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(address) & ~kTypeBits);
}
// Two neighbouring activations in the type that `to` carries, bf16 or fp16.
__device__ __forceinline__ uint32_t pack_as(const std::byte* to, float low, float high) {
  return type_of(to) != 0 ? ptx::pack_fp16(low, high) : ptx::pack_bf16(low, high);
}
// Likewise in a kernel that is compiled for Config: without code for weights in codes, all
// activations are bf16.
template <class Config>
__device__ __forceinline__ uint32_t pack_for(const std::byte* to, float low, float high) {
  if constexpr (Config::kHasE4M3) return pack_as(to, low, high);
  return ptx::pack_bf16(low, high);
}
__device__ __forceinline__ void store_pair(std::byte* to, float low, float high) {
  ptx::store_relaxed(reinterpret_cast<uint32_t*>(without_type(to)), pack_as(to, low, high));
}

}  // namespace serval::device
