// How many tokens a pass has: where nothing else is asked for, and at most.
#pragma once

#include <cstdint>

#include "engine/compile/compile_model.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/kv_size.h"
#include "models/model.h"

namespace serval {

// On a GPU: 8,192, or as many as take about a quarter of a second, but 2,048 at least; if memory is short, as
// many as the activations have room for beside weights and KV cache, and the KV cache holds; one for each
// slot in any case. Programs of tiles read them: a model that has none gets one token for each slot. `limits`
// are those of the programs, but for their rows.
uint32_t gpu_batch_tokens(const Model& model, const ModelBytes& bytes, const ProgramLimits& limits,
                          uint64_t free_bytes);

// A program has room in the KV cache for a token of each row. Throws Error(kUsage), naming the option, where
// a pass that it asks for has more. `limits` are those that follow from the options.
void check_pass_size(const EngineOptions& options, const ProgramLimits& limits);

}  // namespace serval
