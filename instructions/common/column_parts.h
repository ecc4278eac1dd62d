// K splits: parts of a matrix's columns. In programs of tiles, the sums of a matrix with few rows are split
// along K, so that several SMs can share a tile of outputs: each part is a sum over neighbouring columns, and
// the parts are added first to last. Their number depends only on the matrix's shape, because the sum's bits
// depend on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vm/layout/page_image.h"

namespace serval {

inline constexpr uint32_t kMaxColumnParts = 4;

// Number of parts for the O-projection and the down-projection in programs of tiles: enough that tiles of 64
// outputs times parts is 128, at most 4 and at most the panels of the page image. cols > 0.
constexpr uint32_t matrix_parts(uint32_t rows, uint32_t cols) {
  constexpr uint32_t kTileOutputs = 64, kWantedTiles = 128;
  const uint32_t tiles = std::max(rows / kTileOutputs, 1U);
  return std::min(std::clamp(kWantedTiles / tiles, 1U, kMaxColumnParts), page_image::panels(cols));
}

// Limits of the kernels of rope_parts.
inline constexpr uint32_t kProjectedColsMultiple = 256, kMostProjectedCols = 8192;

// Number of parts for a rank's rows of attention's projections. A part has at least two panels, since adding
// parts takes as long as a product of fewer. At least three parts: with two, adding them costs what splitting
// saves.
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

// Columns of part `part` of `parts`, at most one a panel: whole panels, except for the matrix's last.
constexpr ColumnRange columns_of_part(uint32_t cols, uint32_t part, uint32_t parts) {
  const uint32_t panels = page_image::panels(cols);
  const auto first_col = [&](uint32_t p) { return panels * p / parts * page_image::kPanelCols; };
  return {first_col(part), part + 1 == parts ? cols : first_col(part + 1)};
}

}  // namespace serval
