// The host interpreter as a backend, for machines without a GPU and as the reference for those with one.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/backend/options.h"
#include "engine/compile/program_set.h"
#include "models/checkpoint/weights.h"
#include "models/model.h"

namespace serval {

// Compiles the model and binds the program to memory of its own (activations, caches, state) and to the
// weights. Throws Error(kOutOfMemory) if the KV cache or the activations do not fit, kUsage for options out
// of range.
std::unique_ptr<Backend> make_host_backend(const Model& model, std::shared_ptr<const ModelWeights> weights,
                                           const BackendOptions& options);
// Binds programs, their KV cache and placement as they were compiled. Throws Error(kRuntime), before anything
// is bound, unless they are the model's (models/program_proof.h).
std::unique_ptr<Backend> bind_host_backend(ProgramSet programs, const Model& model,
                                           std::shared_ptr<const ModelWeights> weights,
                                           const BackendOptions& options);

}  // namespace serval
