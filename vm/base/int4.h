// Weights of 4 bits: the values of a group's codes, exact to the bit on host and device.
//
// A group has one word of 32 bits: its scale s in fp16 in the lower half, and in the upper half either a zero
// point z, an integer of 0 to 16, or a minimum m in fp16. Code q has the value s × (q − z), or s × q + m,
// rounded once to fp16.
#pragma once

#include <cstdint>

#include "vm/base/bf16.h"

namespace serval::int4 {

inline constexpr uint32_t kCodes = 16;
inline constexpr uint32_t kLargestZeroPoint = 16;
// Upper half of a word with zero point z: kZeroPointBits + z, NaNs that no minimum is.
inline constexpr uint32_t kZeroPointBits = 0x7C01;

constexpr uint32_t word_with_zero_point(uint16_t scale, uint32_t zero_point) {
  return scale | (kZeroPointBits + zero_point) << 16;
}
// A minimum that is NaN becomes fp16's quiet NaN.
constexpr uint32_t word_with_minimum(uint16_t scale, uint16_t minimum) {
  const bool is_nan = (minimum & 0x7FFF) > 0x7C00;
  return scale | uint32_t{is_nan ? uint16_t{0x7E00} : minimum} << 16;
}
constexpr bool has_zero_point(uint32_t word) {
  return (word >> 16) - kZeroPointBits <= kLargestZeroPoint;
}
constexpr uint32_t zero_point_of(uint32_t word) {
  return (word >> 16) - kZeroPointBits;
}
constexpr uint16_t scale_of(uint32_t word) {
  return static_cast<uint16_t>(word);
}
constexpr uint16_t minimum_of(uint32_t word) {
  return static_cast<uint16_t>(word >> 16);
}

// Arithmetic of values. Float and Word are float and uint32_t, or vectors of them (GCC's extensions), which
// are passed by reference, since their registers depend on the CPU; nothing branches. Products of a scale and
// a code are exact in fp32, so that fusing them with an addition changes nothing.
#define SERVAL_INT4_INLINE __attribute__((always_inline)) constexpr void

// The nearest fp16, ties to even, of 0 and of numbers that are normal in fp16.
template <class Float, class Word>
SERVAL_INT4_INLINE round_normal_to_fp16(const Float& value, Float& rounded) {
  constexpr uint32_t kDroppedBits = 0x1FFF, kJustBelowHalf = 0x0FFF;
  const Word bits = __builtin_bit_cast(Word, value);
  rounded = __builtin_bit_cast(Float, (bits + kJustBelowHalf + (bits >> 13 & 1)) & ~kDroppedBits);
}

// … of any number. A NaN stays a NaN.
template <class Float, class Word>
SERVAL_INT4_INLINE round_to_fp16(const Float& value, Float& rounded) {
  constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7F800000;
  constexpr uint32_t kFirstOverflow = 0x477FF000;  // 65,520 rounds to infinity
  constexpr uint32_t kSmallestNormal = 0x38800000;
  constexpr float kSubnormalShift = 0.5F;  // its unit in the last place is fp16's smallest subnormal
  const Word bits = __builtin_bit_cast(Word, value);
  const Word sign = bits & kSign, magnitude = bits & ~kSign, infinity = (bits & 0) | kInfinity;
  const Float shifted = __builtin_bit_cast(Float, magnitude) + kSubnormalShift;
  const Word subnormal = __builtin_bit_cast(Word, shifted - kSubnormalShift);
  Float normal_value = value;
  round_normal_to_fp16<Float, Word>(__builtin_bit_cast(Float, magnitude), normal_value);
  const Word normal = __builtin_bit_cast(Word, normal_value);
  const Word finite = magnitude < kSmallestNormal ? subnormal : normal;
  const Word bounded = magnitude >= kFirstOverflow ? infinity : finite;
  const Word result = magnitude > kInfinity ? magnitude : bounded;
  rounded = __builtin_bit_cast(Float, sign | result);
}

// The fp16 nearest to a + b: the sum is rounded to fp32 first, and if that is inexact, to the neighbour whose
// last bit is set ("round to odd"), so that rounding it again rounds once.
template <class Float, class Word>
SERVAL_INT4_INLINE add_in_fp16(const Float& a, const Float& b, Float& rounded) {
  constexpr uint32_t kSign = 0x80000000;
  const Float sum = a + b, of_b = sum - a;
  const Float error = (a - (sum - of_b)) + (b - of_b);  // the sum is sum + error, exactly
  const Word bits = __builtin_bit_cast(Word, sum);
  const Word differ = (bits ^ __builtin_bit_cast(Word, error)) & kSign;
  const Word neighbour = differ == 0 ? bits + 1 : bits - 1;
  const Word odd = (bits & 1) == 0 ? neighbour : bits;
  const Word below = error < 0 ? odd : bits;
  const Word chosen = error > 0 ? odd : below;
  round_to_fp16<Float, Word>(__builtin_bit_cast(Float, chosen), rounded);
}

#undef SERVAL_INT4_INLINE

// True if the products of this scale and all codes less a zero point are 0 or normal in fp16.
constexpr bool has_normal_products(uint16_t scale) {
  constexpr uint32_t kLeastExponent = 1, kLargestExponent = 25;  // 2^11 × 16 < 65,520
  const uint32_t exponent = scale >> 10 & 0x1F;
  return exponent >= kLeastExponent && exponent <= kLargestExponent;
}

constexpr float value_of(uint32_t word, uint32_t code) {
  const float scale = fp16_to_float(scale_of(word));
  float value = 0;
  if (has_zero_point(word)) {
    const auto less_zero = static_cast<int32_t>(code - zero_point_of(word));
    round_to_fp16<float, uint32_t>(scale * static_cast<float>(less_zero), value);
  } else {
    add_in_fp16<float, uint32_t>(scale * static_cast<float>(code), fp16_to_float(minimum_of(word)), value);
  }
  return value;
}

}  // namespace serval::int4
