// Embeddings from pooled hidden states (instructions/pool).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/pooling.h"

namespace serval {

// Positions [begin, end) of a text of `length` tokens whose hidden states are pooled.
struct PooledPositions {
  uint32_t begin, end;
};
PooledPositions pooled_positions(Pooling pooling, uint32_t length);

// The embedding of a text of `length` tokens: the first `dimensions` values of what its pooled positions left
// in the state, which for a mean is the sum of their hidden states. Scaled to a length of 1 where the config
// says so; zeros stay zeros. Thread-safe.
std::vector<float> embedding_of(std::span<const float> pooled, const PoolingConfig& config, uint32_t length,
                                uint32_t dimensions);

}  // namespace serval
