// How large the KV cache is made.
#pragma once

#include <cstdint>

#include "engine/include/serval/engine.h"
#include "models/model.h"

namespace serval {

// Tokens of `model` whose keys and values fit in what `free_bytes` leave beside its weights.
uint64_t kv_tokens_beside_weights(const Model& model, uint64_t free_bytes);

// Blocks for the bytes, or the share of the free memory, that the options ask for; 0 where they ask for
// neither. Throws Error(kOutOfMemory) where they do not hold one full context.
uint32_t kv_blocks_of(const EngineOptions& options, const Model& model, int context, uint64_t free_bytes);

}  // namespace serval
