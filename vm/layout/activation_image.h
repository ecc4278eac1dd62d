// Activation images: layout in GPU memory of a bf16 tensor [rows, cols] that is the input of a product.
//
// The image is divided into panels of 1,024 columns, a panel into rows. A row consists of its two halves as
// the consumers read them from shared memory (vm/layout/page_image.h), the second displaced by half of the
// shared memory's banks. So the first n rows of a panel are contiguous, and one bulk copy loads them. Columns
// beyond the tensor's last are zero: no instruction writes them. An image has whole tiles of rows
// (vm/layout/row_tiles.h), so that all programs of up to one tile share one layout and its zeros; programs of
// more rows need their own memory for images whose last panel is not whole.
#pragma once

#include <cstdint>

#include "vm/layout/page_image.h"
#include "vm/layout/row_tiles.h"

namespace serval::activation_image {

inline constexpr uint32_t kHalfStride = page_image::kHalfCols * 2 + 64;  // bytes
inline constexpr uint32_t kRowBytes = 2 * kHalfStride;

// Bytes of a panel with `rows` rows, the largest number of rows of the program or kernel.
constexpr uint32_t panel_bytes(uint32_t rows) {
  return whole_row_tiles(rows) * kRowBytes;
}
constexpr uint64_t bytes(uint32_t rows, uint32_t cols) {
  return uint64_t{page_image::panels(cols)} * panel_bytes(rows);
}
// Byte offset of column `col` of a panel in its row.
constexpr uint32_t offset_in_row(uint32_t half_cols, uint32_t col) {
  return col < half_cols ? col * 2 : kHalfStride + (col - half_cols) * 2;
}
// Byte offset of an element in the image.
constexpr uint64_t offset(uint32_t rows, uint32_t cols, uint32_t row, uint32_t col) {
  const uint32_t panel = col / page_image::kPanelCols;
  return uint64_t{panel} * panel_bytes(rows) + row * kRowBytes +
         offset_in_row(page_image::half_cols(cols, panel), col % page_image::kPanelCols);
}

}  // namespace serval::activation_image
