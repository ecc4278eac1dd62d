// Looks for weights that no model has: NaN and infinity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "models/checkpoint/weight_spec.h"

namespace serval {

// The index of the first bf16 that is NaN or infinite; bf16.size() if all are finite. As fast as memory is
// read. Thread-safe.
size_t first_not_finite(std::span<const uint16_t> bf16);

// Throws Error(kRuntime) about element `index` of a tensor, whose file holds `stored`; `where` is the file
// and the tensor's name there.
[[noreturn]] void refuse_not_finite(const std::string& where, const WeightSpec& spec, int64_t index,
                                    float stored);

}  // namespace serval
