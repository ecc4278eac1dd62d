// A model on a backend, for the commands that time or record passes themselves: no engine in between.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/cli/progress.h"
#include "engine/runtime/model_parts.h"

namespace serval::cli {

struct LoadedModel {
  ModelSource source;
  Weights weights;
  std::unique_ptr<Backend> backend;
};

// Loads with a progress bar and says on stderr how long it took. Throws as Engine::load does.
LoadedModel load_model(EngineOptions options, ProgressMode progress);

}  // namespace serval::cli
