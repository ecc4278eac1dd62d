// bf16 and fp16 as bit patterns: the conversions that every layer shares, exact to the bit on host and
// device.
//
// bf16 is the upper half of an IEEE-754 binary32; fp16 is IEEE-754 binary16. Both are held in a uint16_t.
#pragma once

#include <cstdint>

namespace serval {

constexpr float bf16_to_float(uint16_t bits) noexcept {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; overflow gives infinity. A NaN stays a NaN of the same sign and becomes
// quiet.
constexpr uint16_t float_to_bf16(float value) noexcept {
  constexpr uint32_t kInfinity = 0x7F800000;
  constexpr uint32_t kQuiet = 0x0040;
  constexpr uint32_t kJustBelowHalf = 0x7FFF;  // of the lower 16 bits; the kept part's parity breaks the tie
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t upper = bits >> 16;
  if ((bits & 0x7FFFFFFF) > kInfinity) return static_cast<uint16_t>(upper | kQuiet);
  return static_cast<uint16_t>((bits + kJustBelowHalf + (upper & 1)) >> 16);
}

// Exact: every fp16 value, subnormals included, is a binary32 value.
constexpr float fp16_to_float(uint16_t bits) noexcept {
  constexpr uint32_t kMaxExponent = 0x1F;
  constexpr uint32_t kRebias = 127 - 15;
  constexpr float kSubnormalUnit = 0x1p-24F;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & kMaxExponent;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * kSubnormalUnit;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == kMaxExponent ? 0xFF : exponent + kRebias;
  return __builtin_bit_cast(float, sign | (wide_exponent << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even, as cvt.rn.f16.f32 does; overflow gives infinity. A NaN stays a NaN.
constexpr uint16_t float_to_fp16(float value) noexcept {
  constexpr uint32_t kInfinity = 0x7F800000, kFirstOverflow = 0x477FF000;  // 65,520 rounds to infinity
  constexpr uint32_t kSmallestNormal = 0x38800000, kRebias = (127 - 15) << 23;
  constexpr float kSubnormalShift = 0.5F;  // its unit in the last place is fp16's smallest subnormal
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > kInfinity) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= kFirstOverflow) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < kSmallestNormal) {
    const float shifted = __builtin_bit_cast(float, magnitude) + kSubnormalShift;
    return static_cast<uint16_t>(
        sign | (__builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, kSubnormalShift)));
  }
  const uint32_t rebiased = magnitude - kRebias;
  return static_cast<uint16_t>(sign | ((rebiased + 0xFFF + (rebiased >> 13 & 1)) >> 13));
}

}  // namespace serval
