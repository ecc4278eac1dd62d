#include "engine/torch/oracle.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <vector>

#include "vm/base/error.h"

namespace serval {
namespace {

namespace fs = std::filesystem;

fs::path executable_directory() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : executable.parent_path();
}

std::vector<std::string> plugin_places() {
  if (const char* file = std::getenv(kTorchPluginVariable); file != nullptr && *file != '\0') return {file};
  const fs::path beside = executable_directory();
  return {beside / kTorchPluginName, (beside / "../lib").lexically_normal() / kTorchPluginName,
          fs::path(SERVAL_INSTALLED_LIBRARIES) / kTorchPluginName};
}

std::string find_plugin() {
  const std::vector<std::string> places = plugin_places();
  for (const std::string& place : places) {
    std::error_code ignored;
    if (fs::is_regular_file(place, ignored)) return fs::absolute(place, ignored).string();
  }
  throw Error(ErrorKind::kRuntime,
              fmt::format("LibTorch reference: {} is not at {}; it is built with Serval where CMake finds "
                          "LibTorch (Debian: apt install libtorch-dev; elsewhere: pip install torch), and {} "
                          "names a file elsewhere",
                          kTorchPluginName, fmt::join(places, ", "), kTorchPluginVariable));
}

// A model's parameters by name.
class Parameters {
 public:
  explicit Parameters(const Model& model) : model_(model.name), values_(model.parameters()) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  double number(const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("LibTorch reference: {}: the model has no {}; expected a model of the Llama family",
                    model_, name));
  }
  double number_or(const std::string& name, double otherwise) const {
    return has(name) ? number(name) : otherwise;
  }

 private:
  std::string model_;
  std::map<std::string, double> values_;
};

// Each type of RoPE has a parameter that the others lack.
ServalOracleRope rope_type_of(const Parameters& parameters) {
  if (parameters.has("rope_scaling.beta_fast")) return SERVAL_ORACLE_ROPE_YARN;
  if (parameters.has("rope_scaling.low_freq_factor")) return SERVAL_ORACLE_ROPE_LLAMA3;
  return parameters.has("rope_scaling.factor") ? SERVAL_ORACLE_ROPE_LINEAR : SERVAL_ORACLE_ROPE_DEFAULT;
}

void add_rope(const Parameters& parameters, ServalOracleConfig& c) {
  const auto scaling = [&](const char* name) {
    return parameters.number(std::string("rope_scaling.") + name);
  };
  c.rope_theta = parameters.number("rope_theta");
  c.rope_attention_factor = parameters.number_or("rope_scaling.attention_factor", 1);
  c.rope_type = rope_type_of(parameters);
  if (c.rope_type == SERVAL_ORACLE_ROPE_DEFAULT) return;
  c.rope_factor = scaling("factor");
  if (c.rope_type == SERVAL_ORACLE_ROPE_LINEAR) return;
  c.rope_original_max_position = static_cast<int64_t>(scaling("original_max_position_embeddings"));
  if (c.rope_type == SERVAL_ORACLE_ROPE_LLAMA3) {
    c.rope_low_freq_factor = scaling("low_freq_factor");
    c.rope_high_freq_factor = scaling("high_freq_factor");
  } else {
    c.rope_beta_fast = scaling("beta_fast");
    c.rope_beta_slow = scaling("beta_slow");
    c.rope_truncate = scaling("truncate") != 0 ? 1 : 0;
  }
}

std::vector<double> rope_divisors_of(const Model& model) {
  const Parameters parameters(model);
  std::vector<double> divisors;
  for (std::string name = "rope_freqs.0"; parameters.has(name);
       name = fmt::format("rope_freqs.{}", divisors.size()))
    divisors.push_back(parameters.number(name));
  return divisors;
}

ServalOracleConfig plugin_config(const Model& model, const OracleOptions& options) {
  const Parameters parameters(model);
  ServalOracleConfig c = {};
  c.hidden_size = model.hidden_size;
  c.intermediate_size = model.intermediate_size;
  c.num_layers = model.num_layers;
  c.num_heads = model.num_heads;
  c.num_kv_heads = model.num_kv_heads;
  c.head_dim = model.head_dim;
  c.vocab_size = model.vocab_size;
  c.rms_norm_eps = parameters.number("rms_norm_eps");
  add_rope(parameters, c);
  c.cache_cells = options.cache_cells;
  c.dtype = options.dtype == OracleDtype::kBf16 ? SERVAL_ORACLE_BF16 : SERVAL_ORACLE_FP32;
  c.threads = static_cast<int32_t>(options.threads);
  return c;
}

ServalOracleDevice device_of(const ServalOracleApi& api, OracleDevice wanted) {
  if (wanted == OracleDevice::kAuto)
    wanted = api.cuda_available() != 0 ? OracleDevice::kCuda : OracleDevice::kCpu;
  return wanted == OracleDevice::kCuda ? SERVAL_ORACLE_CUDA : SERVAL_ORACLE_CPU;
}

void check_status(const ServalOracleApi& api, ServalOracleStatus status) {
  if (status == SERVAL_ORACLE_OK) return;
  const ErrorKind kind =
      status == SERVAL_ORACLE_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kRuntime;
  throw Error(kind, fmt::format("LibTorch reference: {}", api.last_error()));
}

ServalOracle* create_oracle(const ServalOracleApi& api, const Model& model, const ModelWeights& weights,
                            const ServalOracleConfig& plugin) {
  std::vector<std::string> names;
  for (const WeightSpec& spec : model.weights()) {
    names.push_back(spec.name);
    if (!spec.alias.empty()) names.push_back(spec.alias);
  }
  std::vector<ServalOracleWeight> table;
  for (const std::string& name : names) {
    const Matrix matrix = weights.matrix(name);
    table.push_back({name.c_str(), matrix.bf16, matrix.rows, matrix.cols, matrix.codes,
                     static_cast<uint8_t>(matrix.dtype)});
  }
  ServalOracle* oracle = nullptr;
  check_status(api, api.create(&plugin, table.data(), table.size(), &oracle));
  return oracle;
}

}  // namespace

const ServalOracleApi& load_torch_plugin() {
  const std::string file = find_plugin();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw Error(ErrorKind::kRuntime, fmt::format("LibTorch reference: {}", dlerror()));
  }
  using Entry = const ServalOracleApi*();
  auto* entry = reinterpret_cast<Entry*>(dlsym(library, SERVAL_ORACLE_ENTRY));
  if (entry == nullptr) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("LibTorch reference: {}: not this program's plugin, symbol {} is "
                            "missing",
                            file, SERVAL_ORACLE_ENTRY));
  }
  const ServalOracleApi& api = *entry();
  if (api.abi_version != SERVAL_ORACLE_ABI_VERSION) {
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("LibTorch reference: {}: version {} of the interface; needed: {}; build both from the "
                    "same sources",
                    file, api.abi_version, SERVAL_ORACLE_ABI_VERSION));
  }
  return api;
}

Oracle::Oracle(const Model& model, std::shared_ptr<const ModelWeights> weights, const OracleOptions& options)
    : api_(&load_torch_plugin()),
      weights_(std::move(weights)),
      vocab_(static_cast<size_t>(model.vocab_size)),
      device_(device_of(*api_, options.device)),
      oracle_(nullptr, Destroy{api_}) {
  ServalOracleConfig plugin = plugin_config(model, options);
  plugin.device = device_;
  const std::vector<double> divisors = rope_divisors_of(model);
  if (!divisors.empty()) plugin.rope_divisors = divisors.data();
  oracle_.reset(create_oracle(*api_, model, *weights_, plugin));
}

void Oracle::forward(const OracleTokens& input, std::span<float> logits) {
  if (input.cells.size() < input.tokens.size() || logits.size() != input.num_logits * vocab_) {
    throw Error(ErrorKind::kUsage,
                fmt::format("LibTorch reference: {} tokens, {} cells, {} logits do not belong "
                            "together",
                            input.tokens.size(), input.cells.size(), logits.size()));
  }
  const ServalOracleTokens tokens = {input.tokens.data(), static_cast<int64_t>(input.tokens.size()),
                                     static_cast<int64_t>(input.cells.size() - input.tokens.size()),
                                     input.cells.data(), static_cast<int64_t>(input.num_logits)};
  check_status(*api_, api_->forward(oracle_.get(), &tokens, logits.data()));
}

double Oracle::time_replay(int64_t batch, int64_t context, int64_t replays) {
  const ServalOracleReplay replay = {batch, context, replays};
  double microseconds = 0;
  check_status(*api_, api_->time_replay(oracle_.get(), &replay, &microseconds));
  return microseconds;
}

}  // namespace serval
