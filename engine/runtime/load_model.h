// From options to a model on a backend: the one way for the engine and for commands that need no engine.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/backend/backend.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/model_source.h"
#include "models/checkpoint/weights.h"

namespace serval {

// A model's weights: opened and checked at once, in host memory as soon as they are wanted there.
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

struct LoadedModel {
  ModelSource source;
  Weights weights;
  std::unique_ptr<Backend> backend;
  std::string notice;   // one line: why `auto` did not take a GPU that might be expected to run; else empty
  double load_seconds;  // of compiling, and of bringing the weights to where they are used
};

// The model that the options name, once it is clear that they are within their limits, that the backend is
// to be had here and that the model comes with weights or is to have random ones. Reads no weight. Throws
// Error(kUsage) and Error(kRuntime) with one line.
ModelSource open_model(const EngineOptions& options);
// The same model's weights on the backend that the options name, with options.program where one is given:
// errors of that name the file. Throws as open_model(), as the backends do,
// and Error(kUsage) for a context that is longer than the model's.
LoadedModel load_model(const EngineOptions& options, ModelSource source);

using MakeBackend = std::function<std::unique_ptr<Backend>()>;

struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string notice;  // as in LoadedModel
};

// `auto`: what `device` makes, or, where `check` finds no GPU that can run programs or `device` no memory
// (Error(kOutOfMemory)), what `host` makes. The reason for that is the notice if a GPU `is_expected`.
ChosenBackend device_or_host(const std::function<void()>& check, const MakeBackend& device,
                             const MakeBackend& host, bool is_expected);

}  // namespace serval
