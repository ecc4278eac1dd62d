// A decoding step of LibTorch's operators as a CUDA graph, as a baseline without launch overhead. It
// generates a token greedily and returns no logits.
#pragma once

#include "engine/torch/oracle_api.h"
#include "engine/torch/plugin/eager_llama.h"

namespace serval::torch_plugin {

// Microseconds per replay. The model must be on a GPU. Throws as EagerLlama, and if LibTorch has no CUDA.
double time_replay(const EagerLlama& model, const ServalOracleReplay& replay);

}  // namespace serval::torch_plugin
