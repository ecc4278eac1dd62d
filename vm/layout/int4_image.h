// Page images of 4-bit weights: vm/layout/page_image.h with half a byte an element.
//
// Units and panels are those of bf16 images, so a whole panel of a unit has 4 KiB of codes. An image consists
// of parts of two panels, or a unit's last one: first their codes, then the words of their groups
// (vm/base/int4.h), panel by panel, a group's 8 rows together, then the scales of the unit's 8 rows. The
// warps that multiply a part need nothing else. A unit's parts are contiguous; a kernel loads one or several
// of them as a page.
//
// A panel's codes are blocks of two pairs of products: 512 bytes each, 16 for each lane of a warp. A lane has
// two words for each pair, one for its 8 columns of each half of the panel: all codes of a word belong to one
// group. Bits 0 … 15 of a word have the even columns, bits 16 … 31 the odd ones, so that one mask takes two
// neighbouring columns out of both halves. A last panel with an odd number of pairs is padded.
//
// `group`: columns of a group, 32, 64 or 128.
#pragma once

#include <cstdint>

#include "vm/layout/page_image.h"

namespace serval::int4_image {

inline constexpr uint32_t kBlockBytes = 512;
inline constexpr uint32_t kPairsOfBlock = 2;
inline constexpr uint32_t kBlockCols = kPairsOfBlock * page_image::kPairCols;
// Bytes of a whole panel's codes.
inline constexpr uint32_t kPanelBytes = page_image::kHalfCols / kBlockCols * kBlockBytes;
inline constexpr uint32_t kPanelsOfPart = 2;
inline constexpr uint32_t kGroupBytes = kUnitRows * sizeof(uint32_t);  // the words of a group's 8 rows
inline constexpr uint32_t kScaleBytes = kUnitRows * sizeof(float);
inline constexpr uint32_t kSmallestGroup = 32;

// Bytes of the words of a whole panel.
constexpr uint32_t panel_word_bytes(uint32_t group) {
  return page_image::kPanelCols / group * kGroupBytes;
}
// Bytes of a part of two whole panels.
constexpr uint32_t whole_part_bytes(uint32_t group) {
  return kPanelsOfPart * (kPanelBytes + panel_word_bytes(group)) + kScaleBytes;
}
// Parts of a unit of a matrix with `panels` panels.
constexpr uint32_t parts(uint32_t panels) {
  return (panels + kPanelsOfPart - 1) / kPanelsOfPart;
}
// Bytes of the codes, and of the words, of a panel of 2 × half_cols columns, the last of which may not exist.
constexpr uint32_t code_bytes_of_half(uint32_t half_cols) {
  return (half_cols + kBlockCols - 1) / kBlockCols * kBlockBytes;
}
constexpr uint32_t word_bytes_of_half(uint32_t half_cols, uint32_t group) {
  return (2 * half_cols + group - 1) / group * kGroupBytes;
}
// Bytes of a part's codes, after which its words lie.
constexpr uint32_t code_bytes(uint32_t cols, uint32_t part) {
  const uint32_t last = page_image::panels(cols) - 1, first = part * kPanelsOfPart;
  if (first + kPanelsOfPart <= last) return kPanelsOfPart * kPanelBytes;
  return (last - first) * kPanelBytes + code_bytes_of_half(page_image::half_cols(cols, last));
}
// Bytes of a part's words, after which its scales lie.
constexpr uint32_t word_bytes(uint32_t cols, uint32_t part, uint32_t group) {
  const uint32_t last = page_image::panels(cols) - 1, first = part * kPanelsOfPart;
  if (first + kPanelsOfPart <= last) return kPanelsOfPart * panel_word_bytes(group);
  return (last - first) * panel_word_bytes(group) +
         word_bytes_of_half(page_image::half_cols(cols, last), group);
}
constexpr uint32_t part_bytes(uint32_t cols, uint32_t part, uint32_t group) {
  return code_bytes(cols, part) + word_bytes(cols, part, group) + kScaleBytes;
}
constexpr uint64_t unit_bytes(uint32_t cols, uint32_t group) {
  const uint32_t last = parts(page_image::panels(cols)) - 1;
  return uint64_t{last} * whole_part_bytes(group) + part_bytes(cols, last, group);
}
constexpr uint64_t bytes(uint64_t rows, uint32_t cols, uint32_t group) {
  return (rows + kUnitRows - 1) / kUnitRows * unit_bytes(cols, group);
}
constexpr uint64_t part_offset(uint32_t cols, uint32_t group, uint32_t unit, uint32_t part) {
  return unit * unit_bytes(cols, group) + uint64_t{part} * whole_part_bytes(group);
}
// Offset of a panel's codes in its part.
constexpr uint32_t panel_in_part(uint32_t panel) {
  return panel % kPanelsOfPart * kPanelBytes;
}
// Offset, in its part, of the word of a group in row `row` of a unit; `index`: of the panel's groups.
constexpr uint32_t word_in_part(uint32_t cols, uint32_t group, uint32_t panel, uint32_t index, uint32_t row) {
  return code_bytes(cols, panel / kPanelsOfPart) + panel % kPanelsOfPart * panel_word_bytes(group) +
         index * kGroupBytes + row * static_cast<uint32_t>(sizeof(uint32_t));
}
// Offset, in its part, of the scale of row `row` of a unit.
constexpr uint32_t scale_in_part(uint32_t cols, uint32_t group, uint32_t part, uint32_t row) {
  return code_bytes(cols, part) + word_bytes(cols, part, group) + row * static_cast<uint32_t>(sizeof(float));
}
// Offset in a unit of the codes of slabs `slab` (vm/layout/slab_image.h), an even number, and slab + 1: a
// block.
constexpr uint32_t slab_offset(uint32_t group, uint32_t slab) {
  constexpr uint32_t kSlabsOfPanel = page_image::kHalfCols / page_image::kPairCols;
  const uint32_t panel = slab / kSlabsOfPanel;
  return panel / kPanelsOfPart * whole_part_bytes(group) + panel_in_part(panel) +
         slab % kSlabsOfPanel / kPairsOfBlock * kBlockBytes;
}
// Offset in a unit of the words of a panel's first group.
constexpr uint32_t panel_words_offset(uint32_t cols, uint32_t group, uint32_t panel) {
  return panel / kPanelsOfPart * whole_part_bytes(group) + word_in_part(cols, group, panel, 0, 0);
}
// Shift of the code in column `col` of the 8 in a lane's word.
constexpr uint32_t shift_of(uint32_t col) {
  return (col % 2 * 4 + col / 2) * 4;
}

// A code's place in its panel.
struct Place {
  uint32_t word;   // byte offset of its word
  uint32_t shift;  // bits
};
// Place of the element in row `row` of a unit and column `col` of the panel.
constexpr Place place(uint32_t half_cols, uint32_t row, uint32_t col) {
  const uint32_t half = col / half_cols, in_half = col % half_cols;
  const uint32_t pair = in_half / page_image::kPairCols, in_pair = in_half % page_image::kPairCols;
  const uint32_t lane = row * (page_image::kPairCols / kUnitRows) + in_pair / kUnitRows;
  return {pair / kPairsOfBlock * kBlockBytes + lane * 16 + pair % kPairsOfBlock * 8 + half * 4,
          shift_of(in_pair % kUnitRows)};
}

}  // namespace serval::int4_image
