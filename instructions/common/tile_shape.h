// How large the tiles are that programs of GEMMs deal out (instructions/product/orders/tile_stream.cuh).
#pragma once

#include <cstdint>

#include "vm/layout/units.h"

namespace serval {

// What an instance works on, at most: units of the matrix, or of the residual, and rows of the pass.
struct TileShape {
  uint32_t units, rows;
};

constexpr uint32_t num_tiles(uint32_t units, TileShape tile, uint32_t rows) {
  return (units + tile.units - 1) / tile.units * ((rows + tile.rows - 1) / tile.rows);
}

// Of a matrix of so many units, on so many SMs, in a program of tiles of
// `tile_rows` rows: halved as long as no SM gets two, where a matrix's columns are cut into `parts` of all of
// them. Its units are halved first, as if there were no parts: kernels of large tiles multiply half the rows
// in half the time only where all sequences generate.
constexpr TileShape tile_shape(uint32_t units, uint32_t rows, uint32_t tile_rows, uint32_t sms,
                               uint32_t parts = 1) {
  TileShape tile{kTileUnits, tile_rows};
  if (2 * num_tiles(units, tile, rows) <= sms) tile.units /= 2;
  const TileShape half_rows{tile.units, tile_rows / 2};
  const bool has_half = rows > half_rows.rows && half_rows.rows > 0;
  return has_half && parts * num_tiles(units, half_rows, rows) <= sms ? half_rows : tile;
}

// The tile with its rows halved as often as no SM gets two, but not below `least`.
constexpr TileShape with_rows_halved(TileShape tile, uint32_t least, uint32_t units, uint32_t rows,
                                     uint32_t sms) {
  while (tile.rows > least && num_tiles(units, {tile.units, tile.rows / 2}, rows) <= sms) tile.rows /= 2;
  return tile;
}

// What an instance of a reduction adds up (instructions/reduce_residual): units, at most, of as many squares
// as leave together; and rows, at least, of what its warps do at a time.
inline constexpr uint32_t kMostUnitsReduced = 32, kRowsReducedTogether = 16;

// The same of a reduction of a slice, which streams no weights: of as many units as it may have, its rows are
// halved as often as no SM gets two instances.
constexpr TileShape reduction_shape(uint32_t units, uint32_t rows, uint32_t tile_rows, uint32_t sms) {
  TileShape tile{kMostUnitsReduced, tile_rows};
  while (units % tile.units != 0) tile.units /= 2;
  return with_rows_halved(tile, kRowsReducedTogether, units, rows, sms);
}

// Rows of which a warp adds up the same 64 columns at a time: dealt out by fewer, some of its lanes idle.
inline constexpr uint32_t kRowsAddedTogether = 4;

// What an instance adds up of the parts of attention's inputs (instructions/rope_parts): half a tile's units,
// as many as lanes look at together. Its rows are halved as long as no SM gets two.
constexpr TileShape added_shape(uint32_t units, uint32_t rows, uint32_t tile_rows, uint32_t sms) {
  return with_rows_halved({kTileUnits / 2, tile_rows}, kRowsAddedTogether, units, rows, sms);
}

}  // namespace serval
