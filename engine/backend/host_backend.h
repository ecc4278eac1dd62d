// The host interpreter as a backend: for machines without a GPU, and the reference for those with one.
#pragma once

#include <memory>
#include <optional>

#include "engine/backend/backend.h"
#include "models/checkpoint/config.h"
#include "models/checkpoint/weights.h"
#include "scheduler/placement.h"

namespace serval {

struct HostBackendOptions {
  uint32_t context = 4096;       // tokens a sequence may hold
  uint32_t max_sequences = 16;   // full contexts that the KV cache holds
  uint32_t threads = 0;          // 0: one for each core
  uint32_t sms = 0;              // 0: as many as threads
  std::optional<Policy> policy;  // none: what the cost model prefers
  QueueKind queue_kind = QueueKind::kPerSm;
  double stall_timeout_s = 30;
  // Runs on one thread in the order that this seed picks (vm/host/replay.h): to find or repeat a race.
  std::optional<uint64_t> interleaving;
};

// Compiles the model and binds the program to memory of its own (activations, caches, state) and to the
// weights. Throws Error(kOutOfMemory) if the KV cache or the activations do not fit, kUsage for options out
// of range.
std::unique_ptr<Backend> make_host_backend(const LlamaConfig& config,
                                           std::shared_ptr<const ModelWeights> weights,
                                           const HostBackendOptions& options);
// Binds a program of the model, its KV cache and placement as they were compiled. Throws Error(kRuntime),
// before anything is bound, unless the program is proven to be valid (scheduler/validate.h).
std::unique_ptr<Backend> bind_host_backend(Program program, const LlamaConfig& config,
                                           std::shared_ptr<const ModelWeights> weights,
                                           const HostBackendOptions& options);

}  // namespace serval
