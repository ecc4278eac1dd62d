// Finds weights that are NaN or infinite: a sound model has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "models/checkpoint/weight_spec.h"

namespace serval {

// Index of the first element that is NaN or infinite; bf16.size() if all are finite. Runs at memory
// bandwidth. Thread-safe.
size_t first_not_finite(std::span<const uint16_t> bf16);

// Throws Error(kRuntime) for element `index` of a weight. `stored` is its value in the file; `where` names
// the file and the tensor.
[[noreturn]] void refuse_not_finite(const std::string& where, const WeightSpec& spec, int64_t index,
                                    float stored);

}  // namespace serval
