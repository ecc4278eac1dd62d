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

// Index, in row-major order, of the first element that is NaN or infinite, or whose row's scale is; -1 if all
// are finite. `rows`: [row_count] of row_bytes_of(dtype, cols), a type of has_codes()
// (vm/layout/weight_rows.h). Thread-safe.
int64_t first_not_finite_code(DType dtype, const uint8_t* rows, int64_t row_count, int64_t cols);

// Throws Error(kRuntime) for element `index` of a weight. `stored` is its value in the file; `where` names
// the file and the tensor.
[[noreturn]] void refuse_not_finite(const std::string& where, const WeightSpec& spec, int64_t index,
                                    float stored);

}  // namespace serval
