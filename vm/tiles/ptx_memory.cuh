// Loads from global memory by how they see other SMs' stores. What vm/device/ptx.cuh lacks is added here, one
// thin function each.
#pragma once

#include "vm/device/ptx.cuh"
#include "vm/tiles/types/global_tile.cuh"

namespace serval::tiles::ptx {

using device::ptx::load_constant;
using device::ptx::load_relaxed;

__device__ __forceinline__ uint16_t load_relaxed(const uint16_t* p) {
  uint16_t v;
  asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ float2 load_relaxed(const float2* p) {
  float2 v;
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ uint16_t load_constant(const uint16_t* p) {
  uint16_t v;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ uint32_t load_constant(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ float2 load_constant(const float2* p) {
  float2 v;
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p));
  return v;
}

// What was written before the block's last acquire: L1, which the acquire emptied, may serve it.
__device__ __forceinline__ uint4 load_weak(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

}  // namespace serval::tiles::ptx

namespace serval::tiles {

template <Coherence kCoherence, class V>
__device__ __forceinline__ V read_global(const V* p) {
  if constexpr (kCoherence == Coherence::kConstant) {
    return ptx::load_constant(p);
  } else if constexpr (kCoherence == Coherence::kBlock) {
    return ptx::load_weak(p);
  } else {
    return ptx::load_relaxed(p);
  }
}

}  // namespace serval::tiles
