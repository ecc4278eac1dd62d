// Pages of the residual: if a tile's outputs are added to the residual, the ring also carries the residual's
// columns, after the tile's weights.
#pragma once

#include <cstdint>

#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::tile_stream {

// A page has kPageTokens tokens and the tile's 128 columns, in boxes of 32 columns that the copy engine
// swizzles (vm/device/sm90/tensor_maps.h).
inline constexpr uint32_t kBoxCols = 32;
inline constexpr uint32_t kBoxes = kTileUnits * kUnitRows / kBoxCols;
inline constexpr uint32_t kPageTokens = kPageBytes / (kBoxes * kBoxCols * sizeof(float));
inline constexpr uint32_t kBoxBytes = kPageTokens * kBoxCols * sizeof(float);
static_assert(kPageTokens == 2 * kStagedTokens);
__device__ __forceinline__ uint32_t residual_pages(uint32_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}
// Offset in a page, for token `token` of the page and column `col` of the tile.
__device__ __forceinline__ uint32_t residual_offset(uint32_t token, uint32_t col) {
  constexpr uint32_t kPieceFloats = slab_image::kPieceBytes / sizeof(float);
  const uint32_t piece = col % kBoxCols / kPieceFloats ^ token % slab_image::kSwizzledRows;
  return col / kBoxCols * kBoxBytes + token * (kBoxCols * static_cast<uint32_t>(sizeof(float))) +
         piece * slab_image::kPieceBytes + col % kPieceFloats * static_cast<uint32_t>(sizeof(float));
}

}  // namespace serval::device::tile_stream
