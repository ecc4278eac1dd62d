// How many tokens a pass has where nothing else is asked for.
#pragma once

#include <cstdint>

#include "engine/compile/compile_model.h"
#include "engine/runtime/kv_size.h"
#include "models/model.h"

namespace serval {

// On a GPU: 2,048, or as many as the activations have memory for beside weights and KV cache, and the KV
// cache holds; one for each slot at least. Programs of tiles read them: a model that has none gets one token
// for each slot. `limits` are those of the programs, but for their rows.
uint32_t gpu_batch_tokens(const Model& model, const ModelBytes& bytes, const ProgramLimits& limits,
                          uint64_t free_bytes);

}  // namespace serval
