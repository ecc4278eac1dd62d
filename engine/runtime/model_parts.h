// The steps of Engine::load, for those who need a model's parts and no engine.
#pragma once

#include <memory>
#include <string>

#include "engine/backend/backend.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/model_source.h"
#include "models/checkpoint/weights.h"

namespace serval {

// Throws Error(kRuntime) where this program or this machine has no such backend. Reads no model.
void check_backend(const std::string& backend);

// Throws Error(kUsage) for a preset without random weights.
void check_weights_exist(const EngineOptions& options, const ModelSource& source);

// The checkpoint's, or random ones where options.random_weights asks for them. Throws as ModelWeights does.
std::shared_ptr<const ModelWeights> load_weights(const EngineOptions& options, const ModelSource& source);

// The backend that options.backend names. `context`: tokens a sequence may hold, as context_of() gives it.
std::unique_ptr<Backend> make_backend(const EngineOptions& options, const LlamaConfig& config,
                                      std::shared_ptr<const ModelWeights> weights, int context);

}  // namespace serval
