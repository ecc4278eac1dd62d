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
__device__ __forceinline__ void convert(Dst& dst,
                                        const Src& src) requires(!Element8<typename Src::ElementType> &&
                                                                 !Element8<typename Dst::ElementType>) {
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

// dst = src in e4m3; beyond ±448 gives ±448. A lane has two pairs of each 16 columns of fp32 and four
// neighbours in e4m3, so lanes exchange pairs.
template <AccumulatorTile Src, ConversionOf<Src> Dst>
requires Element8<typename Dst::ElementType> __device__ __forceinline__ void convert(
    Dst& dst, const Src& src, uint32_t lane = lane_id()) {
  const int first = static_cast<int>(lane / kPairLanes * kPairLanes + lane % 2 * 2);
  const uint32_t halves = lane % kPairLanes < 2 ? 0x5410 : 0x7632;  // of the two words: lower or upper ones
#pragma unroll
  for (int r = 0; r < Dst::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Dst::kQuadrantCols; ++c) {
      const float2 left = src.quadrant[r][2 * c], right = src.quadrant[r][2 * c + 1];
      const uint32_t pairs = ptx::pack_e4m3(left.x, left.y) | ptx::pack_e4m3(right.x, right.y) << 16;
      const uint32_t low = __shfl_sync(kAllLanes, pairs, first);
      const uint32_t high = __shfl_sync(kAllLanes, pairs, first + 1);
      dst.quadrant[r][c] = __byte_perm(low, high, halves);
    }
  }
}

}  // namespace serval::tiles
