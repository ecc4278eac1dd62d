// Matrices in global memory from which tiles are loaded, and to which they are stored.
#pragma once

#include <type_traits>

#include "vm/tiles/types/element.cuh"

namespace serval::tiles {

// Coherence of loads with writes of other SMs.
enum class Coherence : uint8_t {
  kConstant,  // not written while the kernel runs: L1 may cache it
  kGpu,       // other SMs write it in this kernel, ordered by counters: loads bypass L1
  kBlock,     // likewise, but warps of a block share what L1 has loaded
};

// A matrix that begins at its element (0, 0): row-major, `T` may be const. For operations that move 16 bytes
// at a time, rows must begin at multiples of 16 bytes.
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
