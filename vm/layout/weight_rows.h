// Rows of weight matrices in codes, whatever their storage type.
#pragma once

#include <cstdint>

#include "vm/base/e4m3.h"
#include "vm/base/int4.h"
#include "vm/layout/row_bytes.h"

namespace serval {

// The value of the element in column `col` of a row of codes (has_codes()), rounded to fp32.
inline float value_in_row(DType dtype, const uint8_t* row, uint64_t cols, uint64_t col) {
  if (dtype == DType::kE4M3) return kE4M3Values[row[col]] * e4m3_rows::scale_of(row, cols);
  const uint32_t group = group_of(dtype);
  return int4::value_of(int4_rows::word_of(row, cols, col / group), int4_rows::code_of(row, col)) *
         int4_rows::scale_of(row, cols, group);
}

}  // namespace serval
