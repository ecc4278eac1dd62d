// Segments: eight neighbouring elements of a row, which a thread holds in fp32 and moves as 16 bytes of
// 16-bit elements. For kernels that go through rows without products.
#pragma once

#include "vm/tiles/ops/register/convert.cuh"

namespace serval::tiles {

struct Segment {
  static constexpr uint32_t kElements = 8, kPairs = kElements / 2;
  float2 pair[kPairs];
};

template <Element16 T>
__device__ __forceinline__ Segment unpack(const uint4& from) {
  return {{detail::unpack<T>(from.x), detail::unpack<T>(from.y), detail::unpack<T>(from.z),
           detail::unpack<T>(from.w)}};
}
// Rounds to nearest, ties to even.
template <Element16 T>
__device__ __forceinline__ uint4 pack(const Segment& from) {
  return {detail::pack<T>(from.pair[0]), detail::pack<T>(from.pair[1]), detail::pack<T>(from.pair[2]),
          detail::pack<T>(from.pair[3])};
}
// f(an element of each segment…), element by element.
template <class F, class... Segments>
__device__ __forceinline__ Segment map_segments(F&& f, const Segments&... segments) {
  Segment out;
#pragma unroll
  for (uint32_t i = 0; i < Segment::kPairs; ++i)
    out.pair[i] = {f(segments.pair[i].x...), f(segments.pair[i].y...)};
  return out;
}
// The sum of the elements, in order of pairs.
__device__ __forceinline__ float add_up(const Segment& segment) {
  float sum = 0;
#pragma unroll
  for (const float2& pair : segment.pair) sum += pair.x + pair.y;
  return sum;
}

}  // namespace serval::tiles
