// Matrices in global memory, of which tiles are loaded and stored.
#pragma once

#include <type_traits>

#include "vm/tiles/types/element.cuh"

namespace serval::tiles {

// How loads see what other SMs do.
enum class Coherence : uint8_t {
  kConstant,  // not written while the kernel runs: L1 may keep it
  kGpu,       // other SMs write it in this kernel, ordered by counters: loads go to L2
  kBlock,     // the same; what one warp of a block has loaded others find in L1
};

// A matrix from its element (0, 0) on: row-major, `T` may be const. Operations that move 16 bytes at a time
// need rows that begin at multiples of 16 bytes.
template <class T, Coherence kCoherenceOf = Coherence::kConstant>
requires Element<std::remove_const_t<T>>
struct GlobalTile {
  using ElementType = std::remove_const_t<T>;
  static constexpr Coherence kCoherence = kCoherenceOf;

  T* data;
  uint32_t stride;  // elements from one row to the next

  __device__ __forceinline__ T* at(uint32_t row, uint32_t col) const {
    return data + static_cast<size_t>(row) * stride + col;
  }
};

}  // namespace serval::tiles
