// A pass's rows are grouped into tiles. Tensors with a row for each row of a program have room for whole
// tiles, so that programs of up to one tile share one layout.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr uint32_t kRowTile = 16;
constexpr uint32_t whole_row_tiles(uint32_t rows) {
  return (rows + kRowTile - 1) / kRowTile * kRowTile;
}

}  // namespace serval
