// Matrices in global memory, of which tiles are loaded and stored.
#pragma once

#include <type_traits>

#include "vm/device/ptx.cuh"
#include "vm/tiles/types/element.cuh"

namespace serval::tiles {

// How loads see what other SMs do.
enum class Coherence : uint8_t {
  kConstant,  // nobody writes it while the kernel runs: L1 may keep it
  kGpu,       // other SMs write it in this kernel, ordered by counters: loads go to L2
};

// Row-major; rows begin at multiples of 16 bytes. `T` may be const.
template <class T, Coherence kCoherenceOf = Coherence::kConstant>
requires Element<std::remove_const_t<T>>
struct GlobalTile {
  using ElementType = std::remove_const_t<T>;
  static constexpr Coherence kCoherence = kCoherenceOf;
  T* data;
  uint32_t stride;  // elements from one row to the next
};

// Loads V (uint2, uint4, float2, …) as the tile's coherence demands.
template <Coherence kCoherence, class V>
__device__ __forceinline__ V read_global(const V* p) {
  if constexpr (kCoherence == Coherence::kConstant) return device::ptx::load_constant(p);
  return device::ptx::load_relaxed(p);
}

}  // namespace serval::tiles
