// Slab images of e4m3 activations: vm/layout/slab_image.h with one byte an element, and a scale for each row.
//
// A slab has the columns of two successive slabs of 16-bit elements, in rows of as many bytes. For each of
// these two, a row has 4 pieces of 16 bytes, one after the other. Piece m has the elements of pieces m of the
// 16-bit slab's first and second half, two of each in turn: so a product's 32 bytes meet the codes of weights
// as page images have them (vm/layout/e4m3_image.h). The scales of all rows lie after the last slab.
#pragma once

#include <cstdint>

#include "vm/layout/slab_image.h"

namespace serval::e4m3_slab_image {

inline constexpr uint32_t kSlabsOfSlab = 2;  // slabs of 16-bit elements in a slab of codes
// Tensors have whole slabs: their columns are a multiple of this.
inline constexpr uint32_t kColsOfSlab = kSlabsOfSlab * page_image::kPairCols * 2;
static_assert(kColsOfSlab == slab_image::kRowBytes);

constexpr uint64_t code_bytes(uint32_t rows, uint32_t cols) {
  return slab_image::bytes(rows, cols) / kSlabsOfSlab;
}
constexpr uint64_t bytes(uint32_t rows, uint32_t cols) {
  return code_bytes(rows, cols) + rows * sizeof(float);
}
constexpr uint64_t scale_offset(uint32_t rows, uint32_t cols, uint32_t row) {
  return code_bytes(rows, cols) + row * sizeof(float);
}
// Byte offset of the piece whose elements a slab image of 16 bits has in pieces `piece` and piece + 4 of slab
// `slab`.
constexpr uint64_t piece_offset(uint32_t rows, uint32_t row, uint32_t slab, uint32_t piece) {
  return slab_image::piece_offset(rows, row, slab / kSlabsOfSlab,
                                  slab % kSlabsOfSlab * slab_image::kPiecesOfHalf + piece);
}
// Byte offset of an element.
constexpr uint64_t offset(uint32_t rows, uint32_t cols, uint32_t row, uint32_t col) {
  const slab_image::Place wide = slab_image::place(cols, col);
  const uint32_t half = wide.piece / slab_image::kPiecesOfHalf,
                 piece = wide.piece % slab_image::kPiecesOfHalf;
  const uint32_t pair = wide.byte / 4, of_pair = wide.byte / 2 % 2;
  return piece_offset(rows, row, wide.slab, piece) + pair * 4 + half * 2 + of_pair;
}

}  // namespace serval::e4m3_slab_image
