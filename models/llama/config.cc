#include "models/llama/config.h"

#include <algorithm>
#include <initializer_list>

#include "fmt/format.h"

#include "models/generation_config.h"
#include "models/llama/config_options.h"
#include "models/llama/graph.h"
#include "models/llama/rope.h"
#include "models/llama/rope_config.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = ConfigLimits;

// Defaults of transformers' LlamaConfig for missing fields.
constexpr int kDefaultMaxPosition = 2048;
constexpr double kDefaultRmsNormEps = 1e-6;

int read_dimension(const JsonFields& fields, const char* key, int most) {
  const auto value = static_cast<int>(fields.integer(key, Limits::kDimensionMultiple, most));
  if (value % Limits::kDimensionMultiple != 0)
    fields.fail(key, fmt::format("found {}, expected a multiple of {}", value, Limits::kDimensionMultiple));
  return value;
}

void read_heads(const JsonFields& fields, LlamaConfig& config) {
  config.num_heads = static_cast<int>(fields.integer("num_attention_heads", 1, Limits::kMaxHeads));
  config.num_kv_heads =
      static_cast<int>(fields.integer_or("num_key_value_heads", config.num_heads, 1, Limits::kMaxHeads));
  if (config.num_heads % config.num_kv_heads != 0)
    fields.fail("num_key_value_heads", fmt::format("found {}, must divide num_attention_heads {}",
                                                   config.num_kv_heads, config.num_heads));
  if (!fields.has("head_dim") && config.hidden_size % config.num_heads != 0)
    fields.fail("head_dim",
                fmt::format("missing, and hidden_size {} is not a multiple of num_attention_heads {}",
                            config.hidden_size, config.num_heads));
  config.head_dim = static_cast<int>(
      fields.integer_or("head_dim", config.hidden_size / config.num_heads, 1, Limits::kMaxHiddenSize));
  if (config.head_dim != 64 && config.head_dim != 128)
    fields.fail("head_dim", fmt::format("found {}; supported: 64 and 128", config.head_dim));
}

std::unique_ptr<Model> read_config(const JsonFields& fields) {
  auto model = std::make_unique<LlamaConfig>();
  LlamaConfig& config = *model;
  config.hidden_size = read_dimension(fields, "hidden_size", Limits::kMaxHiddenSize);
  config.intermediate_size = read_dimension(fields, "intermediate_size", Limits::kMaxIntermediateSize);
  config.num_layers = static_cast<int>(fields.integer("num_hidden_layers", 1, Limits::kMaxLayers));
  read_heads(fields, config);
  config.vocab_size = static_cast<int>(fields.integer("vocab_size", 1, Limits::kMaxVocabSize));
  config.max_position = static_cast<int>(
      fields.integer_or("max_position_embeddings", kDefaultMaxPosition, 1, Limits::kMaxPosition));
  config.rms_norm_eps = fields.number_or("rms_norm_eps", kDefaultRmsNormEps, 0, 1);
  config.tie_word_embeddings = fields.boolean_or("tie_word_embeddings", false);
  read_rope(fields, config);
  check_config_options(fields, config);
  read_special_tokens(fields, config);
  return model;
}

// For fields whose defaults differ between architectures in transformers. All published files have them.
void require_fields(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (!fields.has(key)) fields.fail(key, "missing");
}

// If sliding_window is missing, transformers uses 4096. Files of Mistral 0.2 and later set it to null.
std::unique_ptr<Model> read_mistral(const JsonFields& fields) {
  require_fields(fields, {"num_key_value_heads", "max_position_embeddings"});
  if (!fields.mentions("sliding_window"))
    fields.fail("sliding_window", "missing, which means 4096; supported: null");
  return read_config(fields);
}

void refuse_windows(const JsonFields& fields) {
  if (fields.boolean_or("use_sliding_window", false))
    fields.fail("use_sliding_window", "found true; supported: false");
}

// Qwen2 and Qwen2.5 always have QKV biases: no field states them. No published size uses sliding windows.
std::unique_ptr<Model> read_qwen2(const JsonFields& fields) {
  require_fields(fields, {"num_key_value_heads", "max_position_embeddings"});
  refuse_windows(fields);
  std::unique_ptr<Model> model = read_config(fields);
  static_cast<LlamaConfig&>(*model).qkv_bias = true;
  return model;
}

// Dense Qwen3 always has norms on the heads of Q and K: no field states them. head_dim is not
// hidden_size / num_attention_heads, so it is required.
std::unique_ptr<Model> read_qwen3(const JsonFields& fields) {
  require_fields(fields, {"num_key_value_heads", "max_position_embeddings", "head_dim"});
  refuse_windows(fields);
  std::unique_ptr<Model> model = read_config(fields);
  static_cast<LlamaConfig&>(*model).qk_norm = true;
  return model;
}

constexpr Architecture kArchitectures[] = {{"llama", "LlamaForCausalLM", read_config},
                                           {"mistral", "MistralForCausalLM", read_mistral},
                                           {"qwen2", "Qwen2ForCausalLM", read_qwen2},
                                           {"qwen3", "Qwen3ForCausalLM", read_qwen3}};

}  // namespace

std::vector<WeightSpec> LlamaConfig::weights() const {
  return llama_weights(*this);
}

std::vector<ModelConstant> LlamaConfig::constants(uint32_t context) const {
  return {{llama_tensor::kRope, make_rope_table(*this, context)}};
}

Graph LlamaConfig::graph(const GraphOptions& options) const {
  return build_llama_graph(*this, options);
}

std::unique_ptr<const Model> LlamaConfig::pooling() const {
  auto model = std::make_unique<LlamaConfig>(*this);
  model->pools = true;
  return model;
}

std::unique_ptr<const Model> LlamaConfig::with_formats(const WeightFormats& wanted) const {
  auto model = std::make_unique<LlamaConfig>(*this);
  model->formats = wanted;
  return model;
}

std::unique_ptr<const Model> LlamaConfig::shortened(int layers) const {
  auto model = std::make_unique<LlamaConfig>(*this);
  model->num_layers = std::min(num_layers, layers);
  return model;
}

std::map<std::string, double> LlamaConfig::parameters() const {
  std::map<std::string, double> out = {{"rms_norm_eps", rms_norm_eps}};
  add_rope_parameters(*this, out);
  return out;
}

std::span<const Architecture> llama_architectures() {
  return kArchitectures;
}

}  // namespace serval
