// The device interpreter as a backend: one GPU runs the passes. This header is plain C++ and may be included
// where the build has no CUDA: what it declares then says so.
#pragma once

#include <memory>
#include <optional>

#include "engine/backend/backend.h"
#include "models/checkpoint/config.h"
#include "models/checkpoint/weight_source.h"
#include "scheduler/placement.h"

namespace serval {

struct DeviceBackendOptions {
  uint32_t context = 4096;       // tokens a sequence may hold
  uint32_t max_sequences = 16;   // full contexts that the KV cache holds
  uint32_t sms = 0;              // 0: as many as the GPU has, which is also the limit
  std::optional<Policy> policy;  // none: what the cost model prefers, or …
  bool best_policy = false;      // … the simulator
  QueueKind queue_kind = QueueKind::kPerSm;
  double stall_timeout_s = 30;
  int gpu = 0;  // CUDA's index
};

// Whether the build has CUDA.
bool device_is_built();

// Throws Error(kRuntime) with one line that says why no GPU of this machine can run programs, if none can.
void check_device(int gpu = 0);

// Compiles the model for the GPU and brings the weights there, page image by page image. Throws as
// check_device(), Error(kOutOfMemory) if weights, KV cache and activations do not fit, before any is read,
// and Error(kUsage) for options out of range.
std::unique_ptr<Backend> make_device_backend(const LlamaConfig& config, const WeightSource& weights,
                                             const DeviceBackendOptions& options,
                                             const LoadProgress& progress = {});

}  // namespace serval
