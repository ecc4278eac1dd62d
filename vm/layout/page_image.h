// Page images: layout of a weight matrix in GPU memory.
//
// A matrix of `rows` × `cols` bf16 is divided into units of 8 rows (missing rows of the last are zero) and
// panels of 1,024 columns. A unit's panels are contiguous. One panel of one unit is a page of 16 KiB, which
// one bulk copy loads and one warp multiplies. A last panel of fewer columns makes a smaller page.
//
// A page is read as 16 rows of half as many columns, which fills the tensor cores' 16-row operand: rows 0-7
// are the unit's rows at the first half of the columns, rows 8-15 the same rows at the second half. It is
// stored as successive m16n8k16 operands, 512 bytes each, 16 for each lane of a warp. Two successive products
// cover 32 columns of each half; lane q of a quad holds columns 8q to 8q + 7, so that the other operand can
// be read 16 bytes at a time, too.
#pragma once

#include <cstdint>

#include "vm/layout/units.h"
#include "vm/machine.h"

namespace serval::page_image {

inline constexpr uint32_t kPanelCols = kPageBytes / (kUnitRows * 2);  // 2 bytes a bf16
inline constexpr uint32_t kHalfCols = kPanelCols / 2;
inline constexpr uint32_t kPairCols = 32;     // columns of a half that two products cover
inline constexpr uint32_t kProductCols = 16;  // columns that one product covers
inline constexpr uint32_t kProductBytes = 512;

constexpr uint32_t panels(uint32_t cols) {
  return (cols + kPanelCols - 1) / kPanelCols;
}
// Columns of a half of panel `panel`: rounded up, so it may include columns beyond the matrix's last, which
// are zero.
constexpr uint32_t half_cols(uint32_t cols, uint32_t panel) {
  const uint32_t left = cols - panel * kPanelCols;
  if (left >= kPanelCols) return kHalfCols;
  return (left / 2 + kPairCols - 1) / kPairCols * kPairCols;
}
constexpr uint32_t bytes_of_half(uint32_t half_cols) {
  return half_cols / kProductCols * kProductBytes;
}
constexpr uint32_t page_bytes(uint32_t cols, uint32_t panel) {
  return bytes_of_half(half_cols(cols, panel));
}
// Bytes of all panels of a unit.
constexpr uint64_t unit_bytes(uint32_t cols) {
  const uint32_t last = panels(cols) - 1;
  return uint64_t{last} * kPageBytes + page_bytes(cols, last);
}
constexpr uint64_t page_offset(uint32_t cols, uint32_t unit, uint32_t panel) {
  return unit * unit_bytes(cols) + uint64_t{panel} * kPageBytes;
}
constexpr uint64_t bytes(uint64_t rows, uint32_t cols) {
  return (rows + kUnitRows - 1) / kUnitRows * unit_bytes(cols);
}

// Byte offset, in its page, of the element in row `row` of a unit and column `col` of a panel.
constexpr uint32_t element_offset(uint32_t half_cols, uint32_t row, uint32_t col) {
  const uint32_t half = col / half_cols, in_half = col % half_cols;
  const uint32_t pair = in_half / kPairCols, quad = in_half % kPairCols / 8, in_quad = in_half % 8;
  const uint32_t product = pair * 2 + in_quad / 4;
  const uint32_t lane = row * 4 + quad;
  // A lane's four registers: (first half, columns 0-1), (second half, 0-1), (first, 2-3), (second, 2-3).
  const uint32_t reg = in_quad % 4 / 2 * 2 + half;
  return product * kProductBytes + lane * 16 + reg * 4 + in_quad % 2 * 2;
}

}  // namespace serval::page_image
