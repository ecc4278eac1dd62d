// A decoding step of LibTorch's operators as a CUDA graph: what they cost without being launched one by one,
// to be measured against. It computes a token, greedily, and gives out no logits.
#pragma once

#include "engine/torch/oracle_api.h"
#include "engine/torch/plugin/eager_llama.h"

namespace serval::torch_plugin {

// Microseconds of one replay. The model must be on a GPU. Throws as EagerLlama, and where LibTorch has no
// CUDA.
double time_replay(const EagerLlama& model, const ServalOracleReplay& replay);

}  // namespace serval::torch_plugin
