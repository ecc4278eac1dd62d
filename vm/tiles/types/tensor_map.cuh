// What the copy engine has to know of a matrix in global memory to move tiles of it.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

// Shared tiles that lie as the copy engine lays them: rows of one swizzle's width, or plain ones.
template <class T>
concept TensorTile = AnySharedTile<T> &&
                         ((std::same_as<typename T::Swizzle, OperandSwizzle> && T::kRowSegments == 8) ||
                          std::same_as<typename T::Swizzle, NoSwizzle>)&&T::kRows
                         <= 256 &&
                     T::kCols <= 256;

// Of a matrix that is moved in tiles of type Tile, in the driver's encoding (types/make_tensor_map.h). A
// kernel takes it as a __grid_constant__ parameter.
template <TensorTile Tile>
struct alignas(128) TensorMap {
  uint64_t encoding[16];
};

}  // namespace serval::tiles
