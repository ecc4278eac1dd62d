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
