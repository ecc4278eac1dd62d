#include "engine/runtime/model_parts.h"

#include <utility>

#include "fmt/format.h"

#include "engine/backend/host_backend.h"
#include "engine/torch/torch_backend.h"
#include "vm/error.h"

namespace serval {
namespace {

HostBackendOptions host_options(const EngineOptions& options, int context) {
  HostBackendOptions host;
  host.context = static_cast<uint32_t>(context);
  host.max_sequences = static_cast<uint32_t>(options.max_sequences);
  host.threads = static_cast<uint32_t>(options.threads);
  host.sms = static_cast<uint32_t>(options.sms);
  if (!options.policy.empty()) host.policy = policy_named(options.policy);
  host.queue_kind = options.global_queue ? QueueKind::kGlobal : QueueKind::kPerSm;
  host.stall_timeout_s = options.stall_timeout_s;
  host.interleaving = options.interleaving;
  return host;
}

TorchBackendOptions torch_options(const EngineOptions& options, int context) {
  TorchBackendOptions torch;
  torch.context = static_cast<uint32_t>(context);
  torch.max_sequences = static_cast<uint32_t>(options.max_sequences);
  torch.threads = static_cast<uint32_t>(options.threads);
  return torch;
}

}  // namespace

void check_backend(const std::string& backend) {
  if (backend == "device") {
    throw Error(ErrorKind::kRuntime,
                "backend device: this build has no GPU interpreter; use --backend host, which runs the same "
                "programs");
  }
  if (backend == "torch") {
    try {
      load_torch_plugin();
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("backend torch: {}", error.what()));
    }
  }
}

void check_weights_exist(const EngineOptions& options, const ModelSource& source) {
  if (!source.directory.empty() || options.random_weights) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("model {0}: a preset has no weights; give the directory of a checkpoint, or "
                          "random_weights (--random-weights SEED)",
                          source.config.name));
}

std::shared_ptr<const ModelWeights> load_weights(const EngineOptions& options, const ModelSource& source) {
  LoadProgress progress;
  if (options.progress) {
    progress = [&](int64_t done, int64_t total) {
      options.progress("weights", static_cast<uint64_t>(done), static_cast<uint64_t>(total));
    };
  }
  return std::make_shared<const ModelWeights>(
      options.random_weights ? ModelWeights::random(source.config, *options.random_weights, progress)
                             : ModelWeights::load(source.directory, source.config, progress));
}

std::unique_ptr<Backend> make_backend(const EngineOptions& options, const LlamaConfig& config,
                                      std::shared_ptr<const ModelWeights> weights, int context) {
  if (options.backend == "torch") {
    return make_torch_backend(config, std::move(weights), torch_options(options, context));
  }
  return make_host_backend(config, std::move(weights), host_options(options, context));
}

}  // namespace serval
