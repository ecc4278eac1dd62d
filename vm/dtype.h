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
  kF16 = 4,   // inputs of products with e4m3 weights
  kE4M3 = 5,  // weights: codes of 8 bits, with a scale for each row (vm/layout/e4m3_rows.h)
};
inline constexpr int kNumDTypes = 6;

// Bytes of an element, without the scale of its row.
constexpr uint32_t size_of(DType type) {
  switch (type) {
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF32:
      return 4;
    case DType::kI32:
      return 4;
    case DType::kBytes:
    case DType::kE4M3:
      return 1;
  }
  return 0;
}

// The bits of an activation in its storage type, kF16 or kBF16.
constexpr uint16_t to_16_bits(DType dtype, float value) {
  return dtype == DType::kF16 ? float_to_fp16(value) : float_to_bf16(value);
}

template <>
struct EnumNames<DType> {
  static constexpr EnumName<DType> kTable[] = {{DType::kBF16, "bf16"}, {DType::kF32, "f32"},
                                               {DType::kI32, "i32"},   {DType::kBytes, "bytes"},
                                               {DType::kF16, "f16"},   {DType::kE4M3, "e4m3"}};
};

}  // namespace serval
