// Slab images: layout in GPU memory of a bf16 tensor [rows, cols] that is the input of a GEMM.
//
// A slab is the columns that one step of the tensor cores multiplies: a pair of products of a page image
// (vm/layout/page_image.h), so 32 columns of each half of a panel. The image is divided into slabs, a slab
// into rows of 128 bytes, swizzled as in wgmma's and TMA's 128-byte mode. So some rows of a slab, beginning
// with a multiple of 8, are contiguous, and one bulk copy loads them. Within a row, columns have the order of
// a page image's registers: 4 pieces of 16 bytes for each half; piece m of a half has columns 2m and 2m + 1
// of each of 4 units. Columns beyond the tensor's last are zero: nothing writes them.
#pragma once

#include <cstdint>

#include "vm/layout/page_image.h"

namespace serval::slab_image {

inline constexpr uint32_t kRowBytes = 128;
inline constexpr uint32_t kPieceBytes = 16;
inline constexpr uint32_t kPiecesOfHalf = 4;
inline constexpr uint32_t kSwizzledRows = 8;
inline constexpr uint32_t kSlabsOfPanel = page_image::kHalfCols / page_image::kPairCols;

// Slabs of a tensor with `cols` columns.
constexpr uint32_t slabs(uint32_t cols) {
  const uint32_t last = page_image::panels(cols) - 1;
  return last * kSlabsOfPanel + page_image::half_cols(cols, last) / page_image::kPairCols;
}
constexpr uint64_t bytes(uint32_t rows, uint32_t cols) {
  return uint64_t{slabs(cols)} * rows * kRowBytes;
}
// Position of a column: its slab, piece and byte.
struct Place {
  uint32_t slab;
  uint32_t piece;
  uint32_t byte;  // in the piece
};
constexpr Place place(uint32_t cols, uint32_t col) {
  const uint32_t panel = col / page_image::kPanelCols, in_panel = col % page_image::kPanelCols;
  const uint32_t half_cols = page_image::half_cols(cols, panel);
  const uint32_t half = in_panel < half_cols ? 0 : 1, in_half = in_panel - half * half_cols;  // no division
  const uint32_t unit = in_half % page_image::kPairCols / kUnitRows, in_unit = in_half % kUnitRows;
  return {panel * kSlabsOfPanel + in_half / page_image::kPairCols, half * kPiecesOfHalf + in_unit / 2,
          unit * 4 + in_unit % 2 * 2};
}
// Byte offset of a piece in an image of `rows` rows.
constexpr uint64_t piece_offset(uint32_t rows, uint32_t row, uint32_t slab, uint32_t piece) {
  return (uint64_t{slab} * rows + row) * kRowBytes + (piece ^ row % kSwizzledRows) * kPieceBytes;
}
// Byte offset of an element.
constexpr uint64_t offset(uint32_t rows, uint32_t cols, uint32_t row, uint32_t col) {
  const Place at = place(cols, col);
  return piece_offset(rows, row, at.slab, at.piece) + at.byte;
}

}  // namespace serval::slab_image
