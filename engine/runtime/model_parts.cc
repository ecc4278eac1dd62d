#include "engine/runtime/model_parts.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"

#include "engine/backend/best_policy.h"
#include "engine/backend/device_backend.h"
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
  // The simulator is one of a GPU: of the host's threads, the cost model says what is best.
  host.policy = policy_named(options.policy);
  host.queue_kind = options.global_queue ? QueueKind::kGlobal : QueueKind::kPerSm;
  host.stall_timeout_s = options.stall_timeout_s;
  host.interleaving = options.interleaving;
  return host;
}

DeviceBackendOptions device_options(const EngineOptions& options, int context) {
  DeviceBackendOptions device;
  device.context = static_cast<uint32_t>(context);
  device.max_sequences = static_cast<uint32_t>(options.max_sequences);
  device.sms = static_cast<uint32_t>(options.sms);
  device.policy = policy_named(options.policy);
  device.best_policy = options.policy == kBestPolicy;
  device.queue_kind = options.global_queue ? QueueKind::kGlobal : QueueKind::kPerSm;
  device.stall_timeout_s = options.stall_timeout_s;
  return device;
}

TorchBackendOptions torch_options(const EngineOptions& options, int context) {
  TorchBackendOptions torch;
  torch.context = static_cast<uint32_t>(context);
  torch.max_sequences = static_cast<uint32_t>(options.max_sequences);
  torch.threads = static_cast<uint32_t>(options.threads);
  return torch;
}

// What --backend NAME stands before, in the error lines of that backend.
template <class Check>
void check_named(const char* name, Check&& check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("backend {}: {}", name, error.what()));
  }
}

// Where the program was built without CUDA and there is no sign of a GPU, its user will not miss one.
bool gpu_is_expected() {
  constexpr const char* kDriverDevice = "/dev/nvidiactl";
  std::error_code ignored;
  return device_is_built() || std::filesystem::exists(kDriverDevice, ignored);
}

std::unique_ptr<Backend> make_device(const EngineOptions& options, const LlamaConfig& config,
                                     const Weights& weights, int context) {
  return make_device_backend(config, weights.source(), device_options(options, context), weights.progress());
}

std::unique_ptr<Backend> make_host(const EngineOptions& options, const LlamaConfig& config, Weights& weights,
                                   int context) {
  return make_host_backend(config, weights.on_host(), host_options(options, context));
}

LoadProgress weight_progress(const ProgressCallback& progress) {
  if (!progress) return {};
  return [progress](int64_t done, int64_t total) {
    progress("weights", static_cast<uint64_t>(done), static_cast<uint64_t>(total));
  };
}

}  // namespace

ChosenBackend device_or_host(const std::function<void()>& check, const MakeBackend& device,
                             const MakeBackend& host, bool is_expected) {
  const auto instead = [&](const Error& reason) -> ChosenBackend {
    return {host(), is_expected ? fmt::format("running on the CPU: {}", reason.what()) : ""};
  };
  try {
    check();
  } catch (const Error& error) {
    return instead(error);
  }
  try {
    return {device(), ""};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    return instead(error);
  }
}

void check_backend(const std::string& backend) {
  if (backend == "device") check_named("device", [] { check_device(); });
  if (backend == "torch") check_named("torch", [] { load_torch_plugin(); });
}

void check_weights_exist(const EngineOptions& options, const ModelSource& source) {
  if (!source.directory.empty() || options.random_weights) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("model {0}: a preset has no weights; give the directory of a checkpoint, or "
                          "random_weights (--random-weights SEED)",
                          source.config.name));
}

Weights::Weights(const EngineOptions& options, const ModelSource& source)
    : source_(options.random_weights ? make_random_weights(source.config, *options.random_weights)
                                     : open_checkpoint_weights(source.directory, source.config)),
      progress_(weight_progress(options.progress)) {}

std::shared_ptr<const ModelWeights> Weights::on_host() {
  if (!on_host_)
    on_host_ = std::make_shared<const ModelWeights>(ModelWeights::materialise(source_, progress_));
  return on_host_;
}

ChosenBackend make_backend(const EngineOptions& options, const LlamaConfig& config, Weights& weights,
                           int context) {
  if (options.backend == "torch")
    return {make_torch_backend(config, weights.on_host(), torch_options(options, context)), ""};
  const auto device = [&] { return make_device(options, config, weights, context); };
  const auto host = [&] { return make_host(options, config, weights, context); };
  if (options.backend == "device") return {device(), ""};
  // Only the host interpreter can interleave.
  if (options.backend == "host" || options.interleaving) return {host(), ""};
  return device_or_host([] { check_device(); }, device, host, gpu_is_expected());
}

}  // namespace serval
