// Reads elements of a stored tensor as bf16, the type of all loaded weights.
#pragma once

#include <cstdint>
#include <span>

#include "models/checkpoint/safetensors.h"

namespace serval {

// Writes elements [first, first + out.size()), rounded to the nearest bf16. The tensor must have these
// elements and the type BF16, F16 or F32.
void read_stored_elements(const TensorView& tensor, int64_t first, std::span<uint16_t> out);

// True if two tensors have the same shape and, as bf16, the same bits. Reads both up to the first difference.
bool equal_as_bf16(const TensorView& a, const TensorView& b);

}  // namespace serval
