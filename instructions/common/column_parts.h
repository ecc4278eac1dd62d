// Parts of a matrix's columns. In programs of GEMMs, the sums of a matrix with few rows are cut into parts,
// so that several SMs can share a tile of outputs: each part is a sum of its own over neighbouring columns,
// and the parts are added first to last. Their number is a matter of the matrix's shape alone, as the bits of
// the sum depend on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vm/layout/page_image.h"

namespace serval {

inline constexpr uint32_t kMaxColumnParts = 4;

// Parts that the columns of O-projection and down-projection are cut into where a program multiplies tiles of
// rows: enough that its tiles of 64 outputs times the parts come to 128, at most 4 and at most the panels of
// the page image. cols > 0.
constexpr uint32_t matrix_parts(uint32_t rows, uint32_t cols) {
  constexpr uint32_t kTileOutputs = 64, kWantedTiles = 128;
  const uint32_t tiles = std::max(rows / kTileOutputs, 1U);
  return std::min(std::clamp(kWantedTiles / tiles, 1U, kMaxColumnParts), page_image::panels(cols));
}

// What kernels of rope_parts take.
inline constexpr uint32_t kProjectedColsMultiple = 256, kMostProjectedCols = 8192;

// The same of a rank's rows of attention's projections: of two panels or more, since what adds parts up takes
// as long as a product with fewer; and none where two would do: it would take as long as what they save.
constexpr uint32_t projection_parts(uint32_t rows, uint32_t cols) {
  constexpr uint32_t kLeastPanels = 2, kWorthwhileParts = 3;
  const uint32_t parts = matrix_parts(rows, cols);
  if (parts < kWorthwhileParts || cols % kProjectedColsMultiple != 0 || cols > kMostProjectedCols) return 1;
  return std::min(parts, std::max(cols / (kLeastPanels * page_image::kPanelCols), 1U));
}

// Columns [begin, end).
struct ColumnRange {
  uint32_t begin, end;
  constexpr uint32_t count() const { return end - begin; }
};

// Part `part` of `parts`, which are at most the panels: whole panels, but for the matrix's last.
constexpr ColumnRange columns_of_part(uint32_t cols, uint32_t part, uint32_t parts) {
  const uint32_t panels = page_image::panels(cols);
  const auto first_col = [&](uint32_t p) { return panels * p / parts * page_image::kPanelCols; };
  return {first_col(part), part + 1 == parts ? cols : first_col(part + 1)};
}

}  // namespace serval
