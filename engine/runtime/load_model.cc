#include "engine/runtime/load_model.h"

#include <chrono>
#include <filesystem>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "spdlog/spdlog.h"

#include "engine/backend/device_backend.h"
#include "engine/backend/host_backend.h"
#include "engine/runtime/kv_size.h"
#include "engine/runtime/options.h"
#include "engine/runtime/pass_size.h"
#include "engine/torch/torch_backend.h"
#include "models/checkpoint/host_buffer.h"
#include "models/ranks.h"
#include "vm/base/error.h"

namespace serval {
namespace {

// Prefixes the error lines of a backend that was chosen by name.
template <class Check>
void check_named(BackendKind kind, Check&& check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("backend {}: {}", name_of(kind), error.what()));
  }
}

// Throws Error(kRuntime) if this build or this machine does not have the backend.
void check_backend(const EngineOptions& options) {
  const BackendKind kind = backend_kind(options);
  if (kind == BackendKind::kDevice) check_named(kind, [&] { check_device(gpus_of(options)); });
  if (kind == BackendKind::kTorch) check_named(kind, [] { load_torch_plugin(); });
}

void check_weights_exist(const EngineOptions& options, const ModelSource& source) {
  if (source.files || options.random_weights) return;
  throw Error(ErrorKind::kUsage, fmt::format("model {0}: a preset has no weights; give a checkpoint, or "
                                             "random_weights (--random-weights SEED)",
                                             source.model->name));
}

// Without CUDA in the build and without a sign of a GPU, the user does not expect one.
bool gpu_is_expected() {
  constexpr const char* kDriverDevice = "/dev/nvidiactl";
  std::error_code ignored;
  return device_is_built() || std::filesystem::exists(kDriverDevice, ignored);
}

LoadProgress weight_progress(const ProgressCallback& progress) {
  if (!progress) return {};
  return [progress](int64_t done, int64_t total) {
    progress("weights", static_cast<uint64_t>(done), static_cast<uint64_t>(total));
  };
}

// The GPUs that run a program file: the requested ones, else the first ones.
std::vector<int> gpus_of_file(const Program& program, const EngineOptions& options) {
  const size_t count = program.num_devices;
  if (options.gpus.empty()) {
    std::vector<int> first(count);
    std::iota(first.begin(), first.end(), 0);
    return first;
  }
  if (options.gpus.size() == count) return options.gpus;
  throw Error(ErrorKind::kUsage,
              fmt::format("gpus: {}; {} is compiled for {}", options.gpus.size(), options.program, count));
}

// Binds a program file. Errors about the program get the file's name as prefix.
template <class Bind>
std::unique_ptr<Backend> bind_file(const std::string& file, const Program& program, Bind&& bind) {
  try {
    return bind(ProgramSet({{program.limits.rows, ValidProgram(program)}}));
  } catch (const Error& error) {
    if (!std::string_view(error.what()).starts_with("program: ")) throw;
    throw Error(error.kind(), fmt::format("{}: {}", file, error.what()));
  }
}

// Backend options with the size of the KV cache that the options request and the backend's memory allows.
BackendOptions options_in(const EngineOptions& options, const Model& model, const ModelBytes& bytes,
                          uint64_t free_bytes) {
  const int context = context_of(options, model.max_position);
  BackendOptions out = backend_options(options, context);
  out.limits.batch_invariant |= model.pools;
  out.limits.cache_blocks = kv_blocks_of(options, bytes, context, free_bytes);
  if (options.program.empty()) check_pass_size(options, out.limits);
  return out;
}

ChosenBackend make_backend(const EngineOptions& asked, const Model& model, Weights& weights,
                           const Model* draft) {
  EngineOptions engine = asked;
  const std::string& file = engine.program;  // the program file to run; empty: compile the model
  Program program;                           // the file's program
  if (!file.empty()) {
    program = read_program(file);
    engine.gpus = gpus_of_file(program, asked);
  }
  const uint32_t ranks = ranks_of(engine);
  const auto with_draft = [&](const auto& bytes_of) {
    return draft != nullptr ? bytes_of(model, ranks) + bytes_of(*draft, ranks) : bytes_of(model, ranks);
  };
  const auto device = [&] {
    const ModelBytes bytes = with_draft(bytes_of_rank);
    const uint64_t free_bytes = free_device_memory(gpus_of(engine));
    BackendOptions options = options_in(engine, model, bytes, free_bytes);
    if (options.limits.rows == 0)
      options.limits.rows = gpu_batch_tokens(model, bytes, options.limits, free_bytes);
    if (file.empty()) return make_device_backend(model, weights.source(), options, weights.progress());
    return bind_file(file, program, [&](ProgramSet programs) {
      return bind_device_backend(std::move(programs), model, weights.source(), options, weights.progress());
    });
  };
  const auto host_options = [&] {
    return options_in(engine, model, with_draft(bytes_of_model), available_host_memory());
  };
  const auto host = [&] {
    if (asked_formats(engine).e4m3_inputs.value_or(false))
      throw Error(ErrorKind::kUsage, "activations: 8bit: needs a GPU; this run is on the host");
    const BackendOptions options = host_options();
    if (file.empty()) return make_host_backend(model, weights.on_host(), options);
    return bind_file(file, program, [&](ProgramSet programs) {
      return bind_host_backend(std::move(programs), model, weights.on_host(), options);
    });
  };
  const BackendKind kind = backend_kind(engine);
  switch (kind) {
    case BackendKind::kTorch:
      return {make_torch_backend(model, weights.on_host(), host_options()), ""};
    case BackendKind::kDevice:
      return {device(), ""};
    case BackendKind::kHost:
      return {host(), ""};
    case BackendKind::kAuto:
      break;
  }
  // Only the host interpreter can interleave instructions and check passes.
  if (engine.interleaving || engine.checked) return {host(), ""};
  return device_or_host([&] { check_device({gpus_of(engine).front()}); }, device, host, gpu_is_expected());
}

}  // namespace

Weights::Weights(const EngineOptions& options, const ModelSource& source)
    : source_(options.random_weights
                  ? make_random_weights(*source.model, *options.random_weights)
                  : source.files->weights(options.allow_nonfinite ? NotFinite::kLoaded : NotFinite::kRefused,
                                          *source.model)),
      progress_(weight_progress(options.progress)) {}

std::shared_ptr<const ModelWeights> Weights::on_host() {
  if (!on_host_)
    on_host_ = std::make_shared<const ModelWeights>(ModelWeights::materialise(source_, progress_));
  return on_host_;
}

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

ModelSource open_model(const EngineOptions& options) {
  check_options(options);
  check_backend(options);
  ModelSource source = find_model(options);
  check_weights_exist(options, source);
  context_of(options, source.model->max_position);
  check_ranks(*source.model, ranks_of(options));
  return source;
}

LoadedModel load_model(const EngineOptions& options, ModelSource source, const Model* draft) {
  const auto begin = std::chrono::steady_clock::now();
  if (!source.notice.empty()) spdlog::info("{}", source.notice);
  Weights weights(options, source);
  ChosenBackend chosen = make_backend(options, *source.model, weights, draft);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return {std::move(source), std::move(weights), std::move(chosen.backend), std::move(chosen.notice),
          time.count()};
}

}  // namespace serval
