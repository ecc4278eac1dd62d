// Conversions of a tile to another type.
#pragma once

#include "vm/ptx/convert.cuh"
#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

namespace detail {

// v.x becomes the lower half.
template <Element16 T>
__device__ __forceinline__ uint32_t pack(float2 v) {
  return std::same_as<T, Bf16> ? ptx::pack_bf16(v.x, v.y) : ptx::pack_fp16(v.x, v.y);
}
template <Element16 T>
__device__ __forceinline__ float2 unpack(uint32_t pair) {
  if constexpr (std::same_as<T, Bf16>) return {ptx::bf16_low(pair), ptx::bf16_high(pair)};
  return ptx::unpack_fp16(pair);
}

}  // namespace detail

// dst = src in another type; rounds to nearest, ties to even.
template <AnyRegisterTile Src, ConversionOf<Src> Dst>
__device__ __forceinline__ void convert(Dst& dst, const Src& src) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) {
      if constexpr (FloatTile<Src>) {
        dst.quadrant[r][c] = detail::pack<typename Dst::ElementType>(src.quadrant[r][c]);
      } else {
        dst.quadrant[r][c] = detail::unpack<typename Src::ElementType>(src.quadrant[r][c]);
      }
    }
  }
}

}  // namespace serval::tiles
