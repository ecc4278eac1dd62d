#include "models/checkpoint/config.h"

#include <system_error>

#include "fmt/format.h"

#include "vm/error.h"
#include "vm/json_fields.h"
#include "vm/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = ConfigLimits;

constexpr const char* kArchitecture = "LlamaForCausalLM";
constexpr const char* kModelType = "llama";

// transformers' LlamaConfig where config.json is silent.
constexpr int kDefaultMaxPosition = 2048;
constexpr double kDefaultRmsNormEps = 1e-6;
constexpr double kDefaultRopeTheta = 1e4;

void check_architecture(const JsonFields& fields) {
  const json* architectures = fields.find("architectures");
  const json* model_type = fields.find("model_type");
  if (architectures == nullptr && model_type == nullptr)
    fields.fail("architectures", fmt::format("missing, expected [\"{}\"]", kArchitecture));
  if (model_type != nullptr && *model_type != kModelType)
    fields.fail("model_type", fmt::format("found {}, supported is \"{}\"", shown(*model_type), kModelType));
  if (architectures != nullptr && *architectures != json::array({kArchitecture}))
    fields.fail("architectures",
                fmt::format("found {}, supported is [\"{}\"]", shown(*architectures), kArchitecture));
}

// Options of LlamaConfig that would change the forward pass, and that Serval has no instruction for.
void check_options(const JsonFields& fields) {
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (fields.boolean_or(key, false)) fields.fail(key, "found true, supported is false");
  const std::string activation = fields.text_or("hidden_act", "silu");
  if (activation != "silu")
    fields.fail("hidden_act", fmt::format("found {}, supported is \"silu\"", shown(activation)));
  if (fields.has("quantization_config"))
    fields.fail("quantization_config", "quantised checkpoints are not supported; use a BF16, F16 or F32 one");
}

void check_partial_rotary(const JsonFields& fields) {
  if (fields.number_or("partial_rotary_factor", 1, 0, 1) != 1)
    fields.fail("partial_rotary_factor", "supported is 1: every element of a head is rotated");
}

Llama3RopeScaling read_llama3_scaling(const JsonFields& fields) {
  const Llama3RopeScaling scaling = {
      .factor = fields.number("factor", 1, Limits::kMaxRopeFactor),
      .low_freq_factor = fields.number("low_freq_factor", 1 / Limits::kMaxRopeFactor, Limits::kMaxRopeFactor),
      .high_freq_factor =
          fields.number("high_freq_factor", 1 / Limits::kMaxRopeFactor, Limits::kMaxRopeFactor),
      .original_max_position = fields.integer("original_max_position_embeddings", 1, Limits::kMaxPosition),
  };
  if (scaling.low_freq_factor >= scaling.high_freq_factor)
    fields.fail("low_freq_factor", fmt::format("found {}, must be below high_freq_factor {}",
                                               scaling.low_freq_factor, scaling.high_freq_factor));
  return scaling;
}

// `fields` is "rope_scaling" or "rope_parameters"; older files spell rope_type "type".
std::optional<Llama3RopeScaling> read_rope_scaling(const JsonFields& fields) {
  check_partial_rotary(fields);
  const char* key = fields.has("rope_type") ? "rope_type" : "type";
  const std::string type = fields.text_or(key, "default");
  if (type == "default") return std::nullopt;
  if (type == "llama3") return read_llama3_scaling(fields);
  fields.fail(key, fmt::format("found {}, supported are \"default\" and \"llama3\"", shown(type)));
}

void read_rope(const JsonFields& fields, LlamaConfig& config) {
  check_partial_rotary(fields);
  config.rope_theta = fields.number_or("rope_theta", kDefaultRopeTheta, 1, Limits::kMaxRopeTheta);
  const char* key = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields.has(key)) return;
  const JsonFields rope = fields.object(key);
  config.rope_theta = rope.number_or("rope_theta", config.rope_theta, 1, Limits::kMaxRopeTheta);
  config.rope_scaling = read_rope_scaling(rope);
}

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
    fields.fail("head_dim", fmt::format("found {}, supported are 64 and 128", config.head_dim));
}

std::optional<int32_t> read_token_id(const JsonFields& fields, const char* key, const json& value,
                                     int vocab_size) {
  if (!value.is_number_integer() || value < 0 || value >= vocab_size)
    fields.fail(key,
                fmt::format("found {}, expected a token id below vocab_size {}", shown(value), vocab_size));
  return value.get<int32_t>();
}

// eos_token_id is one id or a list of them.
void read_special_tokens(const JsonFields& fields, LlamaConfig& config) {
  if (const json* bos = fields.find("bos_token_id"))
    config.bos_id = read_token_id(fields, "bos_token_id", *bos, config.vocab_size);
  const json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return;
  const json ids = eos->is_array() ? *eos : json::array({*eos});
  if (ids.size() > Limits::kMaxEosIds)
    fields.fail("eos_token_id", fmt::format("found {} ids, the limit is {}", ids.size(), Limits::kMaxEosIds));
  config.eos_ids.clear();
  for (const json& id : ids)
    config.eos_ids.push_back(*read_token_id(fields, "eos_token_id", id, config.vocab_size));
}

LlamaConfig read_config(const json& document, const std::string& source) {
  const JsonFields fields(document, source);
  check_architecture(fields);
  check_options(fields);
  LlamaConfig config;
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
  read_special_tokens(fields, config);
  return config;
}

void read_generation_config(const json& document, const std::string& source, LlamaConfig& config) {
  constexpr double kMaxTemperature = 100;
  constexpr double kMaxPenalty = 100;
  const JsonFields fields(document, source);
  read_special_tokens(fields, config);
  GenerationDefaults& defaults = config.generation;
  if (!fields.boolean_or("do_sample", true)) {
    defaults.temperature = 0.0F;
  } else if (fields.has("temperature")) {
    defaults.temperature = static_cast<float>(fields.number("temperature", 0, kMaxTemperature));
  }
  if (fields.has("top_p")) defaults.top_p = static_cast<float>(fields.number("top_p", 0, 1));
  if (fields.has("top_k"))
    defaults.top_k = static_cast<int>(fields.integer("top_k", 0, Limits::kMaxVocabSize));
  if (fields.has("repetition_penalty"))
    defaults.repetition_penalty = static_cast<float>(fields.number("repetition_penalty", 0, kMaxPenalty));
}

std::string directory_name(const std::filesystem::path& dir) {
  const std::filesystem::path path = std::filesystem::absolute(dir).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

int64_t LlamaConfig::num_parameters() const {
  const int64_t hidden = hidden_size;
  const int64_t embedding = vocab_size * hidden;
  const int64_t query = int64_t{num_heads} * head_dim;
  const int64_t key_value = int64_t{num_kv_heads} * head_dim;
  const int64_t attention = hidden * (query + 2 * key_value) + query * hidden;
  const int64_t mlp = 3 * hidden * intermediate_size;
  const int64_t norms = 2 * hidden;
  return (tie_word_embeddings ? 1 : 2) * embedding + num_layers * (attention + mlp + norms) + hidden;
}

int64_t LlamaConfig::weight_bytes_per_token() const {
  const int64_t unread_rows = tie_word_embeddings ? 0 : vocab_size - 1;
  return weight_bytes_bf16() - kBytesPerBf16 * unread_rows * hidden_size;
}

LlamaConfig load_config(const std::filesystem::path& model_dir) {
  const std::filesystem::path config_path = model_dir / "config.json";
  LlamaConfig config = read_config(parse_json_file(config_path, Limits::kMaxFileBytes), config_path.string());
  config.name = directory_name(model_dir);
  const std::filesystem::path generation_path = model_dir / "generation_config.json";
  std::error_code absent;
  if (std::filesystem::exists(generation_path, absent))
    read_generation_config(parse_json_file(generation_path, Limits::kMaxFileBytes), generation_path.string(),
                           config);
  return config;
}

LlamaConfig parse_config(std::string_view json_text, const std::string& name) {
  LlamaConfig config = read_config(parse_json_text(json_text, name), name);
  config.name = name;
  return config;
}

void apply_generation_config(std::string_view json_text, const std::string& source, LlamaConfig& config) {
  read_generation_config(parse_json_text(json_text, source), source, config);
}

}  // namespace serval
