// Elements of a stored tensor as bf16, which is what all weights become.
#pragma once

#include <cstdint>
#include <span>

#include "models/checkpoint/safetensors.h"

namespace serval {

// out.size() elements from the one numbered `first`, rounded to the nearest bf16. The tensor is of type BF16,
// F16 or F32 and has them.
void read_stored_elements(const TensorView& tensor, int64_t first, std::span<uint16_t> out);

// Whether two tensors have the same shape and, as bf16, the same bits. Reads both up to the first difference.
bool hold_the_same(const TensorView& a, const TensorView& b);

}  // namespace serval
