// Page images of e4m3 weights: vm/layout/page_image.h with one byte an element.
//
// Units and panels are those of bf16 images, so a whole panel of a unit has 8 KiB of codes. A page is two
// panels, or a unit's last one, and then the scales of the unit's 8 rows: the warp that multiplies a page
// needs nothing else. A panel's codes are its successive pairs of products: 512 bytes each, 16 for each lane
// of a warp, of which the first 8 are the lane's operand of the first product and the others that of the
// second.
#pragma once

#include <cstdint>

#include "vm/layout/page_image.h"

namespace serval::e4m3_image {

inline constexpr uint32_t kPairBytes = 512;
// Bytes of a whole panel.
inline constexpr uint32_t kPanelBytes = page_image::kHalfCols / page_image::kPairCols * kPairBytes;
inline constexpr uint32_t kPanelsOfPage = 2;
inline constexpr uint32_t kScaleBytes = kUnitRows * sizeof(float);
inline constexpr uint32_t kPageBytes = kPanelsOfPage * kPanelBytes + kScaleBytes;

constexpr uint32_t bytes_of_half(uint32_t half_cols) {
  return half_cols / page_image::kPairCols * kPairBytes;
}
// Pages of a unit of a matrix with `panels` panels.
constexpr uint32_t pages(uint32_t panels) {
  return (panels + kPanelsOfPage - 1) / kPanelsOfPage;
}
// Bytes of a page's panels, after which its scales lie.
constexpr uint32_t code_bytes(uint32_t cols, uint32_t page) {
  const uint32_t last = page_image::panels(cols) - 1, first = page * kPanelsOfPage;
  if (first + kPanelsOfPage <= last) return kPanelsOfPage * kPanelBytes;
  return (last - first) * kPanelBytes + bytes_of_half(page_image::half_cols(cols, last));
}
constexpr uint64_t unit_bytes(uint32_t cols) {
  const uint32_t last = pages(page_image::panels(cols)) - 1;
  return uint64_t{last} * kPageBytes + code_bytes(cols, last) + kScaleBytes;
}
constexpr uint64_t panel_offset(uint32_t cols, uint32_t unit, uint32_t panel) {
  return unit * unit_bytes(cols) + uint64_t{panel / kPanelsOfPage} * kPageBytes +
         panel % kPanelsOfPage * kPanelBytes;
}
// Offset in a unit of the 64 columns with number `slab` (vm/layout/slab_image.h): a pair of products.
constexpr uint32_t slab_offset(uint32_t slab) {
  constexpr uint32_t kSlabsOfPage = kPanelsOfPage * kPanelBytes / kPairBytes;
  return slab * kPairBytes + slab / kSlabsOfPage * kScaleBytes;
}
// Offset of the scale of row `row` of a unit in one of its pages.
constexpr uint64_t scale_offset(uint32_t cols, uint32_t unit, uint32_t page, uint32_t row) {
  return panel_offset(cols, unit, page * kPanelsOfPage) + code_bytes(cols, page) + row * sizeof(float);
}
constexpr uint64_t bytes(uint64_t rows, uint32_t cols) {
  return (rows + kUnitRows - 1) / kUnitRows * unit_bytes(cols);
}
// Byte offset, in its panel, of the element in row `row` of a unit and column `col` of the panel.
constexpr uint32_t element_offset(uint32_t half_cols, uint32_t row, uint32_t col) {
  const uint32_t wide = page_image::element_offset(half_cols, row, col);
  const uint32_t product = wide / page_image::kProductBytes, in_product = wide % page_image::kProductBytes;
  const uint32_t lane = in_product / 16, byte = in_product % 16 / 2;
  return product / 2 * kPairBytes + lane * 16 + product % 2 * 8 + byte;
}

}  // namespace serval::e4m3_image
