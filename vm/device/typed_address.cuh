// Accesses to tensors whose address carries their storage type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/device/typed_address.h"
#include "vm/ptx/convert.cuh"
#include "vm/ptx/memory.cuh"

namespace serval::device {

// number_of() the type of a weight tensor, from the address of its first byte; and that address.
__device__ __forceinline__ uint32_t weight_type_of(const std::byte* images) {
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>(images) & kWeightTypeBits);
}
__device__ __forceinline__ const std::byte* without_weight_type(const std::byte* images) {
  return reinterpret_cast<const std::byte*>(reinterpret_cast<uint64_t>(images) & ~kWeightTypeBits);
}
// True if the product's input with this address, that of any of its elements, is in fp16.
__device__ __forceinline__ bool is_fp16(const std::byte* address) {
  return (reinterpret_cast<uint64_t>(address) & kFp16Bit) != 0;
}
// The plain address.
template <class T>
__device__ __forceinline__ T* without_type(T* address) {
  return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(address) & ~kFp16Bit);
}
// Two neighbouring activations in the type that `to` carries, bf16 or fp16.
__device__ __forceinline__ uint32_t pack_as(const std::byte* to, float low, float high) {
  return is_fp16(to) ? ptx::pack_fp16(low, high) : ptx::pack_bf16(low, high);
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
