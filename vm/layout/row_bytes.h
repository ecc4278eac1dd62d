// Sizes of rows of weight matrices in host memory.
#pragma once

#include <cstdint>

#include "vm/dtype.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/layout/int4_rows.h"

namespace serval {

// Bytes of a row with its scales. For 4-bit integers, cols is a multiple of their group.
constexpr uint64_t row_bytes_of(DType dtype, uint64_t cols) {
  if (dtype == DType::kE4M3) return e4m3_rows::row_bytes(cols);
  if (is_int4(dtype)) return int4_rows::row_bytes(cols, group_of(dtype));
  return cols * size_of(dtype);
}

}  // namespace serval
