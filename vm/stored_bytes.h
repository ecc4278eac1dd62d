// Sizes of tensors in a GPU's memory, by image and storage type. Page images hold weights, activation images
// elements of 16 bits, slab images elements of 16 bits or e4m3 with scales.
#pragma once

#include <cstdint>

#include "vm/layout/activation_image.h"
#include "vm/layout/e4m3_image.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/int4_image.h"
#include "vm/layout/page_image.h"
#include "vm/layout/slab_image.h"
#include "vm/region.h"
#include "vm/tensor.h"

namespace serval {

constexpr uint64_t page_image_bytes(DType dtype, uint64_t rows, uint32_t cols) {
  if (dtype == DType::kE4M3) return e4m3_image::bytes(rows, cols);
  return is_int4(dtype) ? int4_image::bytes(rows, cols, group_of(dtype)) : page_image::bytes(rows, cols);
}

constexpr uint64_t stored_bytes(const Tensor& tensor) {
  const auto rows = static_cast<uint32_t>(tensor.rows), cols = static_cast<uint32_t>(tensor.cols);
  switch (tensor.image) {
    case Image::kPages:
      return page_image_bytes(tensor.dtype, tensor.rows, cols);
    case Image::kActivation:
      return activation_image::bytes(rows, cols);
    case Image::kSlabs:
      return tensor.dtype == DType::kE4M3 ? e4m3_slab_image::bytes(rows, cols)
                                          : slab_image::bytes(rows, cols);
    case Image::kRowMajor:
    case Image::kKvBlocks:
      return tensor.bytes();
  }
  return 0;
}

// Bytes of the pages of a unit that have panels `begin` to `end` (inclusive), of a page image.
constexpr uint64_t bytes_of_panels(DType dtype, uint32_t cols, uint32_t begin, uint32_t end) {
  uint64_t bytes = 0;
  if (dtype == DType::kE4M3) {
    constexpr uint32_t kPanels = e4m3_image::kPanelsOfPage;
    for (uint32_t page = begin / kPanels; page <= end / kPanels; ++page)
      bytes += e4m3_image::code_bytes(cols, page) + e4m3_image::kScaleBytes;
  } else if (is_int4(dtype)) {
    constexpr uint32_t kPanels = int4_image::kPanelsOfPart;
    for (uint32_t part = begin / kPanels; part <= end / kPanels; ++part)
      bytes += int4_image::part_bytes(cols, part, group_of(dtype));
  } else {
    for (uint32_t panel = begin; panel <= end; ++panel) bytes += page_image::page_bytes(cols, panel);
  }
  return bytes;
}

// Bytes that reading a part of the tensor loads: whole pages of each unit that the part touches in a page
// image; otherwise the part's elements.
constexpr uint64_t stored_bytes(const Tensor& tensor, const Box& box) {
  if (box.empty()) return 0;
  if (tensor.image != Image::kPages)
    return (box.row_end - box.row_begin) * (box.col_end - box.col_begin) * size_of(tensor.dtype);
  const auto cols = static_cast<uint32_t>(tensor.cols);
  const auto begin = static_cast<uint32_t>(box.col_begin / page_image::kPanelCols);
  const auto end = static_cast<uint32_t>((box.col_end - 1) / page_image::kPanelCols);
  const uint64_t unit = bytes_of_panels(tensor.dtype, cols, begin, end);
  return ((box.row_end + kUnitRows - 1) / kUnitRows - box.row_begin / kUnitRows) * unit;
}

}  // namespace serval
