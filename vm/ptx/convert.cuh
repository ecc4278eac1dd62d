// Conversions between pairs of fp32 and one register of two 16-bit elements.
#pragma once

#include <cstdint>

namespace serval::ptx {

// Rounds two floats to nearest, ties to even; `low` becomes the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
__device__ __forceinline__ float bf16_low(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float bf16_high(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

__device__ __forceinline__ uint32_t pack_fp16(float low, float high) {
  uint32_t v;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
// Four e4m3 as two pairs of fp16, lowest byte first. Exact. In order: before what follows, such as a wait.
__device__ __forceinline__ void widen_e4m3(uint32_t codes, uint32_t& low, uint32_t& high) {
  asm volatile(
      "{.reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high;}"
      : "=r"(low), "=r"(high)
      : "r"(codes));
}
// Two floats as e4m3, `low` in the lower byte; rounds to nearest, ties to even; beyond ±448 gives ±448.
__device__ __forceinline__ uint32_t pack_e4m3(float low, float high) {
  uint16_t v;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(v) : "f"(high), "f"(low));
  return v;
}
__device__ __forceinline__ float2 unpack_fp16(uint32_t pair) {
  float2 v;
  asm("{.reg .f16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\n"
      "cvt.f32.f16 %1, high;}"
      : "=f"(v.x), "=f"(v.y)
      : "r"(pair));
  return v;
}

}  // namespace serval::ptx
