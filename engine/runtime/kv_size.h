// How large the KV cache is made.
#pragma once

#include <cstdint>

#include "engine/include/serval/engine.h"
#include "models/model.h"

namespace serval {

// What a model takes of one memory.
struct ModelBytes {
  uint64_t weights;
  uint64_t kv_of_token;
};
// Of one memory for all ranks, such as the host's: weights once, each rank's keys and values.
ModelBytes bytes_of_model(const Model& model, uint32_t ranks);
// Of the GPU of the rank that has most.
ModelBytes bytes_of_rank(const Model& model, uint32_t ranks);

// Tokens whose keys and values fit in what `free_bytes` leave beside the weights.
uint64_t kv_tokens_beside_weights(const ModelBytes& model, uint64_t free_bytes);

// Blocks for the bytes, or the share of the free memory, that the options ask for; 0 where they ask for
// neither. Throws Error(kOutOfMemory) where they do not hold one full context.
uint32_t kv_blocks_of(const EngineOptions& options, const ModelBytes& model, int context,
                      uint64_t free_bytes);

}  // namespace serval
