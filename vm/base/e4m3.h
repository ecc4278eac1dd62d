// e4m3 (OCP 8-bit floating point, "FN": no infinities; torch.float8_e4m3fn) as bit patterns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace serval {

// One sign bit, four exponent bits with a bias of 7, three mantissa bits. All mantissa and exponent bits set:
// NaN. Exact.
constexpr float e4m3_to_float(uint8_t bits) noexcept {
  constexpr uint32_t kMaxExponent = 0xF, kRebias = 127 - 7, kQuietNan = 0x7FC00000;
  constexpr float kSubnormalUnit = 0x1p-9F;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
  const uint32_t exponent = bits >> 3 & kMaxExponent, mantissa = bits & 7;
  if (exponent == kMaxExponent && mantissa == 7) return __builtin_bit_cast(float, sign | kQuietNan);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * kSubnormalUnit;
    return sign != 0 ? -magnitude : magnitude;
  }
  return __builtin_bit_cast(float, sign | (exponent + kRebias) << 23 | mantissa << 20);
}

// Rounds to nearest, ties to even, as cvt.rn.satfinite.e4m3x2.f32 does; values beyond ±448 become ±448. A NaN
// stays a NaN.
constexpr uint8_t float_to_e4m3(float value) noexcept {
  constexpr uint32_t kInfinity = 0x7F800000, kSmallestNormal = 0x3C800000;  // 2^-6
  constexpr uint32_t kLargest = 0x43E00000;                                 // 448
  constexpr uint32_t kRebias = uint32_t{127 - 7} << 23;
  constexpr float kSubnormalShift = 0x1p14F;  // its unit in the last place is e4m3's smallest subnormal
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > kInfinity) return static_cast<uint8_t>(sign | 0x7F);
  if (magnitude >= kLargest) return static_cast<uint8_t>(sign | 0x7E);
  if (magnitude < kSmallestNormal) {
    const float shifted = __builtin_bit_cast(float, magnitude) + kSubnormalShift;
    return static_cast<uint8_t>(
        sign | (__builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, kSubnormalShift)));
  }
  const uint32_t rebiased = magnitude - kRebias;
  return static_cast<uint8_t>(sign | ((rebiased + 0x7FFFF + (rebiased >> 20 & 1)) >> 20));
}

// The scale of a row of e4m3 whose largest magnitude is `largest`: that element becomes the largest e4m3,
// 448. A row of zeros has scale 1.
constexpr float e4m3_scale(float largest) noexcept {
  constexpr float kLargestE4M3 = 448;
  return largest > 0 ? largest / kLargestE4M3 : 1;
}

constexpr std::array<float, 256> make_e4m3_values() {
  std::array<float, 256> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = e4m3_to_float(static_cast<uint8_t>(i));
  return values;
}
inline constexpr std::array<float, 256> kE4M3Values = make_e4m3_values();

// 2^(bits − 127), the type F8_E8M0 of scales; 255 is NaN. Exact.
constexpr float e8m0_to_float(uint8_t bits) noexcept {
  if (bits == 0xFF) return __builtin_bit_cast(float, uint32_t{0x7FC00000});
  return bits == 0 ? 0x1p-127F : __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 23);
}

}  // namespace serval
