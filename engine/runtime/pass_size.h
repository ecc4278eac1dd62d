// The default and the limit for the tokens of a pass.
#pragma once

#include <cstdint>

#include "engine/compile/compile_model.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/kv_size.h"
#include "models/model.h"

namespace serval {

// Default on a GPU: 8,192, or as many as take about a quarter of a second, but at least 2,048. If memory is
// short: as many as the KV cache holds and as have room for activations beside weights and KV cache; but
// always one for each slot. Needs programs of tiles: a model without them gets one token for each slot.
// `limits` are those of the programs except for rows.
uint32_t gpu_batch_tokens(const Model& model, const ModelBytes& bytes, const ProgramLimits& limits,
                          uint64_t free_bytes);

// The KV cache must have room for a token in each row of a program. Throws Error(kUsage), naming the option,
// if the requested passes have more rows. `limits` are those derived from the options.
void check_pass_size(const EngineOptions& options, const ProgramLimits& limits);

}  // namespace serval
