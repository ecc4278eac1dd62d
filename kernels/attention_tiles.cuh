// What the kernels of kernels/attention.h share: exponents, and the order of tiles of rows.
#pragma once

#include <cstdint>

namespace serval::kernels {

inline constexpr float kLog2E = 1.44269504F;  // exponentials are of base 2

constexpr __host__ __device__ uint32_t blocks_of(uint32_t length, uint32_t block) {
  return (length + block - 1) / block;
}

struct HeadTile {
  uint32_t head, tile;
};
// The place of task `index` among the tiles of all heads. Causal: tile 0, which has most to do, of all heads
// first, and every second round of the `clusters` (or blocks) in reverse order, so that each has as much to
// do. Otherwise head after head, whose keys L2 then serves.
template <bool kCausal>
__device__ __forceinline__ HeadTile head_tile(uint32_t index, uint32_t heads, uint32_t tiles,
                                              uint32_t clusters) {
  if constexpr (!kCausal) return {index / tiles, index % tiles};
  const uint32_t round = index / clusters, first = round * clusters;
  const uint32_t size = min(clusters, heads * tiles - first);
  if (round % 2 == 1) index = first + size - 1 - (index - first);
  return {index % heads, index / heads};
}

}  // namespace serval::kernels
