// Element types of tensors, as stored in memory and in program files.
#pragma once

#include <cstdint>

#include "vm/base/enum_names.h"

namespace serval {

enum class DType : uint8_t { kBF16 = 0, kF32 = 1, kI32 = 2, kBytes = 3 };
inline constexpr int kNumDTypes = 4;

constexpr uint32_t size_of(DType type) {
  switch (type) {
    case DType::kBF16:
      return 2;
    case DType::kF32:
      return 4;
    case DType::kI32:
      return 4;
    case DType::kBytes:
      return 1;
  }
  return 0;
}

template <>
struct EnumNames<DType> {
  static constexpr EnumName<DType> kTable[] = {
      {DType::kBF16, "bf16"}, {DType::kF32, "f32"}, {DType::kI32, "i32"}, {DType::kBytes, "bytes"}};
};

}  // namespace serval
