// Loads a model onto a backend, for the engine and for commands that need no engine.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/backend/backend.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/model_source.h"
#include "models/checkpoint/weights.h"

namespace serval {

// A model's weights: opened and checked by the constructor, loaded into host memory when first needed there.
class Weights {
 public:
  // The checkpoint's weights, or random ones if options.random_weights is set. Throws as
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

struct LoadedModel {
  ModelSource source;
  Weights weights;
  std::unique_ptr<Backend> backend;
  std::string notice;   // one line: why `auto` did not use a GPU that the user may expect; else empty
  double load_seconds;  // for compiling, and for moving the weights to their backend
};

// Opens the model that the options name. Checks that the options are within their limits, that the backend is
// available, and that the model has weights or gets random ones. Reads no weights. Throws Error(kUsage) and
// Error(kRuntime) with one line.
ModelSource open_model(const EngineOptions& options);
// Loads the model's weights onto the backend that the options name. Runs options.program if it is set; errors
// of the program name its file. Throws as open_model() and as the backends do, and Error(kUsage) for a
// context longer than the model's.
// `draft`: a model that is loaded beside it later, with as many tokens in its KV cache; null: none.
LoadedModel load_model(const EngineOptions& options, ModelSource source, const Model* draft = nullptr);

using MakeBackend = std::function<std::unique_ptr<Backend>()>;

struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string notice;  // as in LoadedModel
};

// Implements `auto`: returns the backend of `device`; or that of `host`, if `check` finds no usable GPU or if
// `device` throws Error(kOutOfMemory). In that case the notice gives the reason if a GPU `is_expected`.
ChosenBackend device_or_host(const std::function<void()>& check, const MakeBackend& device,
                             const MakeBackend& host, bool is_expected);

}  // namespace serval
