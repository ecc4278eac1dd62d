// Sizes of an instance's tile in programs of tiles (instructions/product/orders/sm90/tile_stream.cuh).
#pragma once

#include <cstdint>

#include "vm/layout/units.h"

namespace serval {

// Limits of an instance: units of the matrix, or of the residual, and rows of the pass.
struct TileShape {
  uint32_t units, rows;
};

constexpr uint32_t num_tiles(uint32_t units, TileShape tile, uint32_t rows) {
  return (units + tile.units - 1) / tile.units * ((rows + tile.rows - 1) / tile.rows);
}

// Tile shape for a matrix of `units` units, `sms` SMs and a program of tiles of `tile_rows` rows: halved as
// long as no SM gets two tiles, with the matrix's columns in `parts` K splits. Units are halved first, as if
// there were no splits: kernels of large tiles multiply half the rows in half the time only if all sequences
// generate.
constexpr TileShape tile_shape(uint32_t units, uint32_t rows, uint32_t tile_rows, uint32_t sms,
                               uint32_t parts = 1) {
  TileShape tile{kTileUnits, tile_rows};
  if (2 * num_tiles(units, tile, rows) <= sms) tile.units /= 2;
  const TileShape half_rows{tile.units, tile_rows / 2};
  const bool has_half = rows > half_rows.rows && half_rows.rows > 0;
  return has_half && parts * num_tiles(units, half_rows, rows) <= sms ? half_rows : tile;
}

// Halves the tile's rows as long as no SM gets two tiles, but not below `least`.
constexpr TileShape with_rows_halved(TileShape tile, uint32_t least, uint32_t units, uint32_t rows,
                                     uint32_t sms) {
  while (tile.rows > least && num_tiles(units, {tile.units, tile.rows / 2}, rows) <= sms) tile.rows /= 2;
  return tile;
}

// Limits of an instance of a reduction (instructions/reduce_residual): most units, whose sums of squares are
// pushed together; and fewest rows, the number that its warps process at a time.
inline constexpr uint32_t kMostUnitsReduced = 32, kRowsReducedTogether = 16;

// Tile shape for the reduction of a slice, which streams no weights: as many units as possible, and rows
// halved as long as no SM gets two instances.
constexpr TileShape reduction_shape(uint32_t units, uint32_t rows, uint32_t tile_rows, uint32_t sms) {
  TileShape tile{kMostUnitsReduced, tile_rows};
  while (units % tile.units != 0) tile.units /= 2;
  return with_rows_halved(tile, kRowsReducedTogether, units, rows, sms);
}

// Rows in which a warp adds the same 64 columns at a time: with fewer, some of its lanes would idle.
inline constexpr uint32_t kRowsAddedTogether = 4;

// Tile shape for adding the parts of attention's inputs (instructions/rope_parts): half a tile's units, as
// many as lanes process together, and rows halved as long as no SM gets two instances.
constexpr TileShape added_shape(uint32_t units, uint32_t rows, uint32_t tile_rows, uint32_t sms) {
  return with_rows_halved({kTileUnits / 2, tile_rows}, kRowsAddedTogether, units, rows, sms);
}

}  // namespace serval
