// Weights of 4 bits: the values of a group's codes.
//
// A group has one word of 32 bits: its scale s in fp16 in the lower half, and in the upper half either a zero
// point z, an integer of 0 to 16, or a minimum m in fp16. Code q has the value s × (q − z), or s × q + m.
//
// Products of few rows do not compute these values: they multiply codes less their zero point, which are
// exact in fp16, with activations, add up a group in fp32, and then multiply the sum by s; m is multiplied by
// the sum of the group's activations. Tiles of rows have no registers for sums of groups. Their products
// multiply values that are rounded to fp16 (value_in_fp16()).
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

// The value of a code. With a zero point it is exact in fp32; with a minimum it is rounded once.
constexpr float value_of(uint32_t word, uint32_t code) {
  const float scale = fp16_to_float(scale_of(word));
  if (!has_zero_point(word)) return scale * static_cast<float>(code) + fp16_to_float(minimum_of(word));
  return scale * (static_cast<float>(code) - static_cast<float>(zero_point_of(word)));
}

// The value of a code, rounded once to the nearest fp16, ties to even; overflow gives infinity.
constexpr float value_in_fp16(uint32_t word, uint32_t code) {
  if (has_zero_point(word)) return fp16_to_float(float_to_fp16(value_of(word, code)));
  const double value =
      static_cast<double>(fp16_to_float(scale_of(word))) * code + fp16_to_float(minimum_of(word));  // exact
  // Rounded to fp32 with the last bit set if that is inexact ("round to odd"), so that rounding it again
  // rounds once.
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return fp16_to_float(float_to_fp16(nearest));
  const bool is_larger = (nearest < 0 ? -nearest : nearest) > (value < 0 ? -value : value);
  const uint32_t truncated = __builtin_bit_cast(uint32_t, nearest) - (is_larger ? 1 : 0);
  return fp16_to_float(float_to_fp16(__builtin_bit_cast(float, truncated | 1)));
}

}  // namespace serval::int4
