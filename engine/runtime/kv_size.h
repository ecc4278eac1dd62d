// The size of the KV cache.
#pragma once

#include <cstdint>

#include "engine/include/serval/engine.h"
#include "models/model.h"

namespace serval {

// Memory that a model needs on one device.
struct ModelBytes {
  uint64_t weights;
  uint64_t kv_of_token;
};
inline ModelBytes operator+(const ModelBytes& a, const ModelBytes& b) {
  return {a.weights + b.weights, a.kv_of_token + b.kv_of_token};
}

// For one memory that all ranks share, such as the host's: weights once, and each rank's keys and values.
ModelBytes bytes_of_model(const Model& model, uint32_t ranks);
// For the GPU of the rank that needs the most.
ModelBytes bytes_of_rank(const Model& model, uint32_t ranks);

// Tokens whose keys and values fit into the part of `free_bytes` that the weights leave.
uint64_t kv_tokens_beside_weights(const ModelBytes& model, uint64_t free_bytes);

// Blocks for the bytes, or for the share of the free memory, that the options specify; 0 if they specify
// neither. Throws Error(kOutOfMemory) if the blocks do not hold one full context.
uint32_t kv_blocks_of(const EngineOptions& options, const ModelBytes& model, int context,
                      uint64_t free_bytes);

}  // namespace serval
