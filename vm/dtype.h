// Element types of tensors, as stored in memory and in program files.
#pragma once

#include <cstdint>

#include "vm/base/bf16.h"
#include "vm/base/enum_names.h"

namespace serval {

enum class DType : uint8_t {
  kBF16 = 0,
  kF32 = 1,
  kI32 = 2,
  kBytes = 3,
  kF16 = 4,  // inputs of products with weights in codes
  // Weights, and inputs of products of such weights: codes of 8 bits, with a scale for each row
  // (vm/layout/e4m3_rows.h).
  kE4M3 = 5,
  // Weights: integers of 4 bits in groups of 32, 64 or 128 columns of a row (vm/layout/int4_rows.h).
  kInt4G32 = 6,
  kInt4G64 = 7,
  kInt4G128 = 8,
};
inline constexpr int kNumDTypes = 9;

// Columns of a group of 4-bit integers; 0 for other types.
constexpr uint32_t group_of(DType type) {
  switch (type) {
    case DType::kInt4G32:
      return 32;
    case DType::kInt4G64:
      return 64;
    case DType::kInt4G128:
      return 128;
    default:
      return 0;
  }
}
constexpr bool is_int4(DType type) {
  return group_of(type) != 0;
}
// True for weights that are codes with scales.
constexpr bool has_codes(DType type) {
  return type == DType::kE4M3 || is_int4(type);
}
// The type of a product's input, given that of its weights. e4m3 weights may also meet an input in e4m3.
constexpr DType input_of_weights(DType weights) {
  return has_codes(weights) ? DType::kF16 : DType::kBF16;
}

// Bits of an element, without scales.
constexpr uint32_t bits_of(DType type) {
  switch (type) {
    case DType::kBF16:
    case DType::kF16:
      return 16;
    case DType::kF32:
    case DType::kI32:
      return 32;
    case DType::kBytes:
    case DType::kE4M3:
      return 8;
    case DType::kInt4G32:
    case DType::kInt4G64:
    case DType::kInt4G128:
      return 4;
  }
  return 0;
}
// Bytes of an element, of which types of 4 bits fill a half.
constexpr uint32_t size_of(DType type) {
  return (bits_of(type) + 7) / 8;
}

// The bits of an activation in its storage type, kF16 or kBF16.
constexpr uint16_t to_16_bits(DType dtype, float value) {
  return dtype == DType::kF16 ? float_to_fp16(value) : float_to_bf16(value);
}

template <>
struct EnumNames<DType> {
  static constexpr EnumName<DType> kTable[] = {
      {DType::kBF16, "bf16"},       {DType::kF32, "f32"},         {DType::kI32, "i32"},
      {DType::kBytes, "bytes"},     {DType::kF16, "f16"},         {DType::kE4M3, "e4m3"},
      {DType::kInt4G32, "int4:32"}, {DType::kInt4G64, "int4:64"}, {DType::kInt4G128, "int4:128"}};
};

}  // namespace serval
