// The steps of Engine::load, for those who need a model's parts and no engine.
#pragma once

#include <functional>
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

// A model's weights: opened and checked at once, in host memory as soon as somebody wants them there.
class Weights {
 public:
  // The checkpoint's, or random ones where options.random_weights asks for them. Throws as
  // open_checkpoint_weights().
  Weights(const EngineOptions& options, const ModelSource& source);

  const WeightSource& source() const { return *source_; }
  const LoadProgress& progress() const { return progress_; }
  // Throws as ModelWeights::materialise().
  std::shared_ptr<const ModelWeights> on_host();

 private:
  std::shared_ptr<const WeightSource> source_;
  LoadProgress progress_;
  std::shared_ptr<const ModelWeights> on_host_;
};

using MakeBackend = std::function<std::unique_ptr<Backend>()>;

struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string notice;  // one line: why `auto` did not take a GPU that might be expected to run; else empty
};

// `auto`: what `device` makes, or, where `check` finds no GPU that can run programs or `device` no memory
// (Error(kOutOfMemory)), what `host` makes. The reason for that is the notice if a GPU `is_expected`.
ChosenBackend device_or_host(const std::function<void()>& check, const MakeBackend& device,
                             const MakeBackend& host, bool is_expected);

// The backend that options.backend names. `context`: tokens a sequence may hold, as context_of() gives it.
ChosenBackend make_backend(const EngineOptions& options, const LlamaConfig& config, Weights& weights,
                           int context);

}  // namespace serval
