// Engine::load: from options to a model that runs.
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "fmt/format.h"

#include "engine/backend/host_backend.h"
#include "engine/runtime/engine_impl.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "engine/runtime/text_model.h"
#include "models/checkpoint/weights.h"
#include "serval/engine.h"

namespace serval {
namespace {

using Clock = std::chrono::steady_clock;

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

void check_backend(const std::string& backend) {
  if (backend == "device") {
    throw Error(ErrorKind::kRuntime,
                "backend device: this build has no GPU interpreter; use --backend host, which runs the same "
                "programs");
  }
  if (backend == "torch") {
    throw Error(ErrorKind::kRuntime,
                "backend torch: libserval_torch.so is not installed; it is built where CMake finds LibTorch "
                "(Debian: apt "
                "install libtorch-dev)");
  }
}

HostBackendOptions host_options(const EngineOptions& options, int context) {
  HostBackendOptions host;
  host.context = static_cast<uint32_t>(context);
  host.max_sequences = static_cast<uint32_t>(options.max_sequences);
  host.threads = static_cast<uint32_t>(options.threads);
  host.sms = static_cast<uint32_t>(options.sms);
  if (!options.policy.empty()) host.policy = policy_named(options.policy);
  host.queue_kind = options.global_queue ? QueueKind::kGlobal : QueueKind::kPerSm;
  host.stall_timeout_s = options.stall_timeout_s;
  return host;
}

SamplingParams default_sampling(const GenerationDefaults& recommended) {
  SamplingParams sampling;
  sampling.temperature = recommended.temperature.value_or(sampling.temperature);
  sampling.top_k = recommended.top_k.value_or(sampling.top_k);
  sampling.top_p = recommended.top_p.value_or(sampling.top_p);
  sampling.repetition_penalty = recommended.repetition_penalty.value_or(sampling.repetition_penalty);
  return sampling;
}

void describe_model(const LlamaConfig& config, ModelInfo& info) {
  info.name = config.name;
  info.hidden_size = config.hidden_size;
  info.intermediate_size = config.intermediate_size;
  info.num_layers = config.num_layers;
  info.num_heads = config.num_heads;
  info.num_kv_heads = config.num_kv_heads;
  info.head_dim = config.head_dim;
  info.vocab_size = config.vocab_size;
  info.num_parameters = config.num_parameters();
  info.weight_bytes = config.weight_bytes_per_token();
  constexpr int64_t kKeysAndValues = 2;
  info.kv_bytes_per_token =
      kKeysAndValues * LlamaConfig::kBytesPerBf16 * config.num_layers * config.num_kv_heads * config.head_dim;
  info.default_sampling = default_sampling(config.generation);
}

void describe_program(const Backend& backend, ModelInfo& info) {
  const Program& program = backend.program();
  info.backend = backend.name();
  info.sms = static_cast<int>(program.machine.sms);
  info.instructions = static_cast<int64_t>(program.instructions.size());
  const auto policy = program.metadata.find("policy");
  if (policy != program.metadata.end()) info.policy = policy->second;
}

}  // namespace

Engine Engine::load(const EngineOptions& options) {
  const Clock::time_point start = Clock::now();
  check_options(options);
  check_backend(options.backend);
  const ModelSource source = find_model(options.model);
  check_weights_exist(options, source);

  EngineParts parts;
  parts.info.context = context_of(options, source.config.max_position);
  parts.text = load_text_model(source, options.chat_template, options.random_weights.has_value());
  parts.backend = make_host_backend(source.config, load_weights(options, source),
                                    host_options(options, parts.info.context));
  describe_model(source.config, parts.info);
  describe_program(*parts.backend, parts.info);
  parts.info.chat_template = parts.text.chat_template;
  parts.load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return Impl::make(std::move(parts));
}

}  // namespace serval
