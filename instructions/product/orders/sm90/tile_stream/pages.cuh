// Where the pages of a tile stream's record come from: boxes of weights, or of the residual
// (instructions/product/orders/sm90/tile_stream.cuh).
#pragma once

#include <cstdint>

#include "instructions/common/operands.cuh"
#include "instructions/product/orders/tile_stream/shape.cuh"

namespace serval::device::tile_stream {

// Bytes of 8 units' pieces of a slab, and of 16.
template <class Format>
inline constexpr uint32_t kHalfPageBytes = kTileUnits / 2 * Format::kPieceBytes;
template <class Format>
inline constexpr uint32_t kWholePageBytes = kTileUnits* Format::kPieceBytes;
inline constexpr uint32_t kResidualPart = 2;  // asks Stream::pages_of() for the residual instead of weights

// Source of pages: weights, or the residual.
struct Pages {
  const std::byte* map;  // a tensor map: of a matrix, with a row of words for each unit, or of the residual
  uint32_t unit;         // the first unit, or the first column
  uint64_t policy = 0;   // L2 policy, for weights
};

// The map of the words of the groups of weights with map `map`, in boxes of as many units (vm/device/isa.h).
__device__ __forceinline__ const std::byte* map_of_words(const BoundProgram& bound, const std::byte* map) {
  return map + size_t{bound.num_tensors} * kMapsOfTensor * kMapBytes;
}

// Pages of the tile's first (half 0) or second (half 1) 8 units.
template <HasProduct Op>
__device__ __forceinline__ Pages weight_pages(const BoundProgram& bound, const ProgramShape& program,
                                              const Op& op, uint32_t half) {
  const WeightUnit at = find_weights(op, program, op.first_unit + half * kWarpgroupUnits, 0);
  const bool halves =
      matrices_of<Op>() == 1 && (op.num_units <= kWarpgroupUnits || has_halves_apart(op, program));
  return {tensor_map(bound, weight_tensor(op, at.tensor), halves), at.index};
}

}  // namespace serval::device::tile_stream
