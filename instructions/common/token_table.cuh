// Token lookup in an embedding on the GPU. The table is a page image, because it may also be the LM head's
// weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/layout/page_image.h"
#include "vm/layout/units.h"

namespace serval::device {

// One column of a table of `cols` columns.
class TableColumn {
 public:
  __device__ __forceinline__ TableColumn(const std::byte* table, uint32_t cols, uint32_t col)
      : unit_bytes_(page_image::unit_bytes(cols)) {
    const uint32_t panel = col / page_image::kPanelCols;
    from_ = table + page_image::page_offset(cols, 0, panel) +
            page_image::element_offset(page_image::half_cols(cols, panel), 0, col % page_image::kPanelCols);
  }
  __device__ __forceinline__ uint16_t load(uint32_t token) const {
    return __ldg(reinterpret_cast<const uint16_t*>(place_of(token)));
  }
  // Loads this column, which must be even, and the next.
  __device__ __forceinline__ uint32_t load_pair(uint32_t token) const {
    return __ldg(reinterpret_cast<const uint32_t*>(place_of(token)));
  }

 private:
  __device__ __forceinline__ const std::byte* place_of(uint32_t token) const {
    constexpr uint32_t kRowBytes = page_image::element_offset(page_image::kHalfCols, 1, 0);
    return from_ + token / kUnitRows * unit_bytes_ + token % kUnitRows * kRowBytes;
  }

  const std::byte* from_;  // address for token 0
  uint64_t unit_bytes_;
};

}  // namespace serval::device
