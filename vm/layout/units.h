// The unit of work: 8 weight rows, as many as one tensor-core column operand holds.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr uint32_t kUnitRows = 8;
// Units of a GEMM's tile of one matrix (instructions/product/orders/sm90/tile_stream.cuh).
inline constexpr uint32_t kTileUnits = 16;
// Largest number of rows of programs that may multiply two matrices in wide tiles, which have twice as many
// units: some kernels have registers for twice the sums of that many rows (instructions/sm90/kernels.def).
inline constexpr uint32_t kMostWideTileRows = 64;
// Every dimension of a model is a multiple of this (the base tile of the tensor cores).
inline constexpr uint32_t kTileDim = 16;

// Units of a vocabulary; the last one may have fewer tokens.
constexpr uint64_t vocabulary_units(uint64_t vocab) {
  return (vocab + kUnitRows - 1) / kUnitRows;
}

}  // namespace serval
