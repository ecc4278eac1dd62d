// Addresses of tensors that carry a storage type.
//
// Some tensors may have one of two types: weights bf16 or e4m3, a product's input bf16 or fp16. The lowest
// bit of such a tensor's address in the tensor table says which one it has, so code that stores or loads its
// elements needs no other operand (vm/device/typed_address.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/dtype.h"

namespace serval::device {

// Set in addresses of e4m3 and of fp16.
inline constexpr uint64_t kTypeBit = 1;

// The table's entry for a tensor of type `dtype` at `base`.
inline void* typed_address(void* base, DType dtype) {
  const bool second = dtype == DType::kE4M3 || dtype == DType::kF16;
  return static_cast<std::byte*>(base) + (second ? kTypeBit : 0);
}

}  // namespace serval::device
