// Rounds rows of bf16 weights to codes with scales.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vm/base/e4m3.h"
#include "vm/base/int4.h"
#include "vm/dtype.h"

namespace serval {

// The scale of a row of 4-bit integers: the largest power of two that is not larger than the row's largest
// magnitude, so that the scales of its groups are normal fp16 numbers. A row of zeros has scale 1.
constexpr float int4_row_scale(float largest) {
  constexpr uint32_t kExponent = 0x7F800000, kLeastExponent = 0x00800000;
  const uint32_t exponent = __builtin_bit_cast(uint32_t, largest) & kExponent;
  if (!(largest > 0)) return 1;
  return __builtin_bit_cast(float, exponent > kLeastExponent ? exponent : kLeastExponent);
}
// The nearest integer, ties to even; |value| < 2^22.
constexpr float round_to_integer(float value) {
  constexpr float kUnitIsOne = 12582912;  // 1.5 × 2^23: its unit in the last place is 1
  return (value + kUnitIsOne) - kUnitIsOne;
}
// The word (vm/base/int4.h) of a group whose elements, divided by the row's scale, reach from `least` to
// `most`; 0 is among them. Scale: a 15th of that range; zero point: the code of 0.
constexpr uint32_t int4_word(float least, float most) {
  constexpr float kSteps = int4::kCodes - 1;
  const uint16_t scale = float_to_fp16((most - least) / kSteps);
  if (scale == 0) return int4::word_with_zero_point(scale, 0);
  const float zero = round_to_integer(-least / fp16_to_float(scale));
  return int4::word_with_zero_point(scale, static_cast<uint32_t>(zero < kSteps ? zero : kSteps));
}
// The nearest code of an element that is divided by the row's scale.
constexpr uint32_t int4_code(float element, uint32_t word) {
  constexpr float kLargest = int4::kCodes - 1;
  const float scale = fp16_to_float(int4::scale_of(word));
  if (scale == 0) return 0;
  const float code = round_to_integer(element / scale) + static_cast<float>(int4::zero_point_of(word));
  return static_cast<uint32_t>(code < 0 ? 0 : code < kLargest ? code : kLargest);
}

// Rounds to a type of has_codes(). to: [rows] of row_bytes_of(dtype, cols) (vm/layout/weight_rows.h). Codes
// are the nearest to element / scale, ties to even. Elements are finite. Thread-safe.
void quantise_rows(DType dtype, const uint16_t* bf16, int64_t rows, int64_t cols, uint8_t* to);

}  // namespace serval
