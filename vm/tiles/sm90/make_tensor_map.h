// Host code: makes the tensor map of a matrix.
#pragma once

#include <cuda.h>

#include "vm/device/sm90/tensor_map_encoder.h"
#include "vm/tiles/sm90/tensor_map.cuh"

namespace serval::tiles {

template <Element T>
inline constexpr CUtensorMapDataType kTensorMapType =
    std::same_as<T, float>  ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
    : std::same_as<T, Bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    : std::same_as<T, E4m3> ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                            : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <class Swizzle>
inline constexpr CUtensorMapSwizzle kTensorMapSwizzle =
    std::same_as<Swizzle, NoSwizzle> ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B;

// Map of a row-major matrix of rows × cols with rows `stride` elements apart; the matrix and its rows begin
// at multiples of 16 bytes. Throws Error(kRuntime) if the driver refuses it.
template <TensorTile Tile>
TensorMap<Tile> make_tensor_map(const typename Tile::ElementType* base, uint64_t rows, uint64_t cols,
                                uint64_t stride) {
  using T = typename Tile::ElementType;
  const cuuint64_t sizes[2] = {cols, rows};
  const cuuint64_t row_bytes[1] = {stride * sizeof(T)};
  const cuuint32_t box[2] = {Tile::kCols, Tile::kRows};
  const cuuint32_t steps[2] = {1, 1};
  TensorMap<Tile> out;
  static_assert(sizeof(out) == sizeof(CUtensorMap) && alignof(TensorMap<Tile>) == alignof(CUtensorMap));
  check_encoded(tensor_map_encoder()(reinterpret_cast<CUtensorMap*>(&out), kTensorMapType<T>, 2,
                                     const_cast<T*>(base), sizes, row_bytes, box, steps,
                                     CU_TENSOR_MAP_INTERLEAVE_NONE, kTensorMapSwizzle<typename Tile::Swizzle>,
                                     CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return out;
}

}  // namespace serval::tiles
