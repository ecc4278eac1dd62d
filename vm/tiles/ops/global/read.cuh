// Loads a word of global memory with the coherence that concurrent writers require.
#pragma once

#include "vm/ptx/memory.cuh"
#include "vm/tiles/types/global_tile.cuh"

namespace serval::tiles {

template <Coherence kCoherence, class V>
__device__ __forceinline__ V read_global(const V* p) {
  if constexpr (kCoherence == Coherence::kConstant) {
    return ptx::load_constant(p);
  } else if constexpr (kCoherence == Coherence::kBlock) {
    return ptx::load_weak(p);
  } else {
    return ptx::load_relaxed(p);
  }
}

}  // namespace serval::tiles
