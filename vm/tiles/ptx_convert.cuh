// Pairs of fp32 as one register of 16-bit elements, and back.
#pragma once

#include "vm/device/ptx.cuh"
#include "vm/tiles/types/element.cuh"

namespace serval::tiles::ptx {

// Rounds to nearest, ties to even; v.x comes into the lower half.
template <Element16 T>
__device__ __forceinline__ uint32_t pack(float2 v) {
  if constexpr (std::same_as<T, Bf16>) {
    return device::ptx::pack_bf16(v.x, v.y);
  } else {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(v.y), "f"(v.x));
    return pair;
  }
}

template <Element16 T>
__device__ __forceinline__ float2 unpack(uint32_t pair) {
  if constexpr (std::same_as<T, Bf16>) {
    return {device::ptx::bf16_low(pair), device::ptx::bf16_high(pair)};
  } else {
    float2 v;
    asm("{.reg .f16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "cvt.f32.f16 %0, low;\n"
        "cvt.f32.f16 %1, high;}"
        : "=f"(v.x), "=f"(v.y)
        : "r"(pair));
    return v;
  }
}

}  // namespace serval::tiles::ptx
