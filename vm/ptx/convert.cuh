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

// Products of pairs of bf16, each rounded once: a × b − 0, since sm_80 has no mul of this type.
__device__ __forceinline__ uint32_t multiply_bf16(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(0x80008000u));
  return v;
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
// Arithmetic of pairs of fp16, each result rounded once; subnormal numbers are kept.
__device__ __forceinline__ uint32_t fma_fp16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t v;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  return v;
}
// fma_fp16() in order: after what precedes, such as a wait.
__device__ __forceinline__ uint32_t fma_fp16_in_order(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t v;
  asm volatile("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  return v;
}
// The lower and the upper half of a word, twice.
__device__ __forceinline__ uint32_t both_low(uint32_t word) {
  return __byte_perm(word, 0, 0x1010);
}
__device__ __forceinline__ uint32_t both_high(uint32_t word) {
  return __byte_perm(word, 0, 0x3232);
}
// The larger magnitude of each of two pairs of fp16; of a number and a NaN, the number's.
__device__ __forceinline__ uint32_t larger_magnitudes(uint32_t a, uint32_t b) {
  constexpr uint32_t kMagnitudes = 0x7FFF7FFF;
  uint32_t v;
  asm("max.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a & kMagnitudes), "r"(b & kMagnitudes));
  return v;
}
__device__ __forceinline__ uint32_t subtract_fp16(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
// (word & mask) | other, in one instruction.
template <uint32_t kMask>
__device__ __forceinline__ uint32_t masked_with(uint32_t word, uint32_t other) {
  uint32_t v;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(v) : "r"(word), "n"(kMask), "r"(other));
  return v;
}
// 1024 + n as fp16, for the nibbles n in bits 0 … 3 and 16 … 19; 1024 + 16 n, for those in bits 4 … 7 and
// 20 … 23. The unit of fp16 in the last place is 1 from 1024 on.
__device__ __forceinline__ uint32_t low_nibbles_plus_1024(uint32_t word) {
  return masked_with<0x000F000F>(word, 0x64006400);
}
__device__ __forceinline__ uint32_t high_nibbles_plus_1024(uint32_t word) {
  return masked_with<0x00F000F0>(word, 0x64006400);
}
// The lower and the upper fp16 of a pair.
__device__ __forceinline__ float fp16_low(uint32_t pair) {
  float v;
  asm("{.reg .f16 low, high;\n"
      "mov.b32 {low, high}, %1;\n"
      "cvt.f32.f16 %0, low;}"
      : "=f"(v)
      : "r"(pair));
  return v;
}
__device__ __forceinline__ float fp16_high(uint32_t pair) {
  float v;
  asm("{.reg .f16 low, high;\n"
      "mov.b32 {low, high}, %1;\n"
      "cvt.f32.f16 %0, high;}"
      : "=f"(v)
      : "r"(pair));
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
