// Addresses of tensors that carry a storage type.
//
// Some tensors may have one of several types: weights bf16, e4m3 or 4-bit integers, a product's input bf16 or
// fp16. The lowest bits of such a tensor's address in the tensor table say which one it has, so code that
// stores or loads its elements needs no other operand (vm/device/typed_address.cuh). An address within a
// product's input keeps the type: its elements come in pairs of 4 bytes, so only two bits are free there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/dtype.h"

namespace serval::device {

inline constexpr uint64_t kWeightTypeBits = 7;  // of a weight tensor's first byte
inline constexpr uint64_t kFp16Bit = 1;         // of any element of a product's input

// The number of a type in an address. Weights: bf16, e4m3, and 4-bit integers in groups of 32, 64 and 128. A
// product's input: bf16, fp16.
constexpr uint32_t number_of(DType dtype) {
  switch (dtype) {
    case DType::kE4M3:
    case DType::kF16:
      return 1;
    case DType::kInt4G32:
      return 2;
    case DType::kInt4G64:
      return 3;
    case DType::kInt4G128:
      return 4;
    default:
      return 0;
  }
}

// The table's entry for a tensor of type `dtype` at `base`.
inline void* typed_address(void* base, DType dtype) {
  return static_cast<std::byte*>(base) + number_of(dtype);
}

}  // namespace serval::device
