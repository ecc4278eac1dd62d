// Rows on their way from global memory into a column-layout tile.
#pragma once

#include "vm/tiles/types/element.cuh"
#include "vm/tiles/types/layout.cuh"

namespace serval::tiles {

// A column-layout tile with wide columns pairs neighbouring rows, while a 16-byte load brings eight columns
// of one row. So loads put rows here, as they come, and `zip` pairs them when they are needed: nothing in
// between waits for the loads.
template <Element16 T, int kRowsOf, int kColsOf>
struct ColumnStage {
  using ElementType = T;
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr int kQuadrantRows = kRows / kQuadrant, kSpans = kCols / kSingleSpan;
  static_assert(kRows > 0 && kRows % kQuadrant == 0, "rows come in whole quadrants");
  static_assert(kCols > 0 && kCols % kSingleSpan == 0, "columns come in whole spans of the wide order");

  uint4 run[kQuadrantRows][2][kSpans];  // [.][i]: of row i of this lane's pair
};

}  // namespace serval::tiles
