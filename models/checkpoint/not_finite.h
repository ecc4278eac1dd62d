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

// Index, in row-major order, of the first element whose code or whose row's scale is NaN or infinite; -1 if
// all are finite. `rows`: [row_count] of e4m3_rows::row_bytes(cols) (vm/layout/e4m3_rows.h). Thread-safe.
int64_t first_not_finite_e4m3(const uint8_t* rows, int64_t row_count, int64_t cols);

// Throws Error(kRuntime) for element `index` of a weight. `stored` is its value in the file; `where` names
// the file and the tensor.
[[noreturn]] void refuse_not_finite(const std::string& where, const WeightSpec& spec, int64_t index,
                                    float stored);

}  // namespace serval
