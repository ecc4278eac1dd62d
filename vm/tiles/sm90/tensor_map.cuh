// Tensor maps: descriptions of matrices in global memory, which the copy engine needs to move tiles.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Shared tiles in a layout that the copy engine writes: 128-byte rows with its swizzle, or plain rows.
template <class T>
concept TensorTile = AnySharedTile<T> &&
                         ((std::same_as<typename T::Swizzle, OperandSwizzle> && T::kRowSegments == 8) ||
                          std::same_as<typename T::Swizzle, NoSwizzle>)&&T::kRows
                         <= 256 &&
                     T::kCols <= 256;

// Map of a matrix that is moved in tiles of type Tile, in the driver's encoding (make_tensor_map.h). A
// kernel takes it as a __grid_constant__ parameter.
template <TensorTile Tile>
struct alignas(128) TensorMap {
  uint64_t encoding[16];
};

}  // namespace serval::tiles
