#include "models/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "models/architectures.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = ConfigLimits;

// Supported values of general.architecture. They prefix the keys of fields and equal config.json's
// model_type.
constexpr std::string_view kArchitectures[] = {"llama", "qwen2", "qwen3"};

constexpr const char* kArchitectureKey = "general.architecture";
constexpr const char* kEmbeddingTensor = "token_embd.weight";
constexpr const char* kOutputTensor = "output.weight";
constexpr const char* kRopeFactors = "rope_freqs.weight";

// Keys of llama.cpp (2026) that change what a model computes. 0 means that the model has no such part.
constexpr const char* kParts[] = {
    "attention.clamp_kqv",
    "attention.indexer.head_count",
    "attention.kv_lora_rank",
    "attention.max_alibi_bias",
    "attention.q_lora_rank",
    "attention.shared_kv_layers",
    "attention.temperature_length",
    "attention.temperature_scale",
    "attn_logit_softcapping",
    "decoder_block_count",
    "embedding_length_per_layer_input",
    "expert_count",
    "expert_group_count",
    "expert_group_used_count",
    "expert_shared_count",
    "expert_used_count",
    "final_logit_softcapping",
    "full_attention_interval",
    "hyper_connection.count",
    "interleave_moe_layer_step",
    "nextn_predict_layers",
    "rope.dimension_count_swa",
    "rope.freq_base_swa",
    "rope.scaling.alpha",
    "rope.scaling.yarn_log_multiplier",
    "router_logit_softcapping",
    "swiglu_clamp_exp",
};
// Factors, whose neutral value is 1. llama.cpp ignores a factor of 0, too.
constexpr const char* kFactors[] = {"attention.output_scale", "attention.value_scale",
                                    "embedding_scale",        "logit_scale",
                                    "residual_scale",         "rope.scaling.yarn_attn_factor"};
// Lists that must be absent, empty or all 0.
constexpr const char* kLists[] = {"attention.sliding_window_pattern", "classifier.output_labels",
                                  "rope.dimension_sections", "swiglu_clamp_shexp"};

// The fields of the file's architecture, named without its prefix.
class ArchitectureFields {
 public:
  explicit ArchitectureFields(const GgufFields& fields)
      : fields_(fields), prefix_(architecture(fields) + ".") {}

  std::string model_type() const { return prefix_.substr(0, prefix_.size() - 1); }
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  int64_t integer(std::string_view name, int64_t most) const { return fields_.integer(key(name), 1, most); }
  std::optional<int64_t> find_integer(std::string_view name, int64_t most) const {
    return fields_.find_integer(key(name), 0, most);
  }
  std::optional<double> find_number(std::string_view name) const { return fields_.find_number(key(name)); }
  double number_or(std::string_view name, double otherwise) const {
    return find_number(name).value_or(otherwise);
  }
  // A number within [least, most]; `otherwise` if the field is missing.
  double number_or(std::string_view name, double otherwise, double least, double most) const {
    const double found = number_or(name, otherwise);
    if (!(found >= least && found <= most))
      fail(name, fmt::format("found {}, expected a number from {} to {}", found, least, most));
    return found;
  }
  bool has(std::string_view name) const { return fields_.has(key(name)); }
  [[noreturn]] void fail(std::string_view name, const std::string& problem) const {
    fields_.fail(key(name), problem);
  }
  const GgufFields& all() const { return fields_; }

 private:
  static std::string architecture(const GgufFields& fields) {
    std::string name(fields.text(kArchitectureKey));
    if (std::ranges::find(kArchitectures, name) == std::end(kArchitectures)) {
      fields.fail(kArchitectureKey,
                  fmt::format("found {}; supported: llama, qwen2 and qwen3", in_quotes(name)));
    }
    return name;
  }

  const GgufFields& fields_;
  std::string prefix_;
};

void require_empty_or_zero(const ArchitectureFields& fields, const char* name) {
  if (fields.all().is_empty_or_zero(fields.key(name))) return;
  fields.fail(name, "supported: models without it");
}

void check_options(const ArchitectureFields& fields) {
  for (const char* name : kParts) {
    const auto value = fields.find_number(name);
    if (value && *value != 0)
      fields.fail(name, fmt::format("found {}; supported: models without it", *value));
  }
  for (const char* name : kFactors) {
    const auto value = fields.find_number(name);
    if (value && *value != 1 && *value != 0) fields.fail(name, fmt::format("found {}; supported: 1", *value));
  }
  for (const char* name : kLists) require_empty_or_zero(fields, name);
  if (!fields.all().boolean_or(fields.key("attention.causal"), true))
    fields.fail("attention.causal", "found false; supported: true");
  if (fields.all().boolean_or(fields.key("use_parallel_residual"), false))
    fields.fail("use_parallel_residual", "found true; supported: false");
  const std::string activation = fields.all().text_or(fields.key("hidden_activation"), "silu");
  if (activation != "silu")
    fields.fail("hidden_activation", fmt::format("found {}; supported: \"silu\"", in_quotes(activation)));
  const std::string kind = fields.all().text_or("general.type", "model");
  if (kind != "model")
    fields.all().fail("general.type", fmt::format("found {}; supported: \"model\"", in_quotes(kind)));
}

// attention.scale multiplies scores. 0 or a missing field means 1 / sqrt(head_dim).
void check_attention_scale(const ArchitectureFields& fields, int64_t head_dim) {
  constexpr double kTolerance = 1e-6;  // relative: the field is fp32
  const double found = fields.number_or("attention.scale", 0);
  const double expected = 1 / std::sqrt(static_cast<double>(head_dim));
  if (found != 0 && !(std::abs(found - expected) <= kTolerance * expected))
    fields.fail("attention.scale", fmt::format("found {}; supported: {}", found, expected));
}

void add_heads(const ArchitectureFields& fields, json& config) {
  config["num_attention_heads"] = fields.integer("attention.head_count", Limits::kMaxHeads);
  config["num_key_value_heads"] = fields.has("attention.head_count_kv")
                                      ? fields.integer("attention.head_count_kv", Limits::kMaxHeads)
                                      : fields.integer("attention.head_count", Limits::kMaxHeads);
  const auto rotated = fields.find_integer("rope.dimension_count", Limits::kMaxHiddenSize);
  const auto key_length = fields.find_integer("attention.key_length", Limits::kMaxHiddenSize);
  const auto value_length = fields.find_integer("attention.value_length", Limits::kMaxHiddenSize);
  const int64_t hidden = config["hidden_size"], heads = config["num_attention_heads"];
  const int64_t head_dim = key_length.value_or(hidden / heads);
  if (rotated && *rotated != head_dim)
    fields.fail("rope.dimension_count",
                fmt::format("found {}; supported: {}, all of a head", *rotated, head_dim));
  if (value_length && *value_length != head_dim) {
    fields.fail("attention.value_length",
                fmt::format("found {}; supported: {}, as of the keys", *value_length, head_dim));
  }
  if (key_length) config["head_dim"] = *key_length;
  check_attention_scale(fields, head_dim);
}

// Reads rope_freqs, the divisors of RoPE's frequencies.
std::vector<float> read_divisors(const GgufFields& fields, const GgufTensor& tensor, int64_t head_dim) {
  const auto pairs = static_cast<size_t>(head_dim / 2);
  if (tensor.type->name != "F32" || tensor.shape != std::vector<int64_t>{head_dim / 2})
    fields.fail(kRopeFactors,
                fmt::format("expected {} factors of the type F32, one for each pair of a head", pairs));
  std::vector<float> divisors(pairs);
  tensor.type->decode(tensor.bytes.data(), pairs, divisors.data());
  for (size_t i = 0; i < pairs; ++i) {
    if (!(divisors[i] >= 1 / Limits::kMaxRopeFactor && divisors[i] <= Limits::kMaxRopeFactor)) {
      fields.fail(kRopeFactors, fmt::format("factor {} is {}, expected a number from {} to {}", i,
                                            divisors[i], 1 / Limits::kMaxRopeFactor, Limits::kMaxRopeFactor));
    }
  }
  return divisors;
}

// GGUF files of Llama 3.x store the divisors of the frequencies instead of the four parameters of "llama3"
// scaling. Three of these are the same in all published models, and the last divisor is the fourth. If the
// four give the stored divisors, they replace them: the frequencies then equal those of the model's
// config.json bit for bit. Otherwise returns nullopt.
std::optional<json> llama3_scaling(std::span<const float> divisors, double theta) {
  constexpr double kLowFactor = 1, kHighFactor = 4, kOriginalContext = 8192;
  constexpr double kTolerance = 1e-4;  // relative
  const double factor = divisors.back();
  if (!(factor >= 1)) return std::nullopt;
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(divisors.size());
    const double turns = kOriginalContext / (2 * M_PI * std::pow(theta, share));
    const double kept = std::clamp((turns - kLowFactor) / (kHighFactor - kLowFactor), 0.0, 1.0);
    const double expected = 1 / ((1 - kept) / factor + kept);
    if (!(std::abs(divisors[i] - expected) <= kTolerance * expected)) return std::nullopt;
  }
  return json{{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", kLowFactor},
              {"high_freq_factor", kHighFactor},
              {"original_max_position_embeddings", static_cast<int64_t>(kOriginalContext)}};
}

// rope.scaling.factor, or the same under its older name. 0 means 1.
double read_rope_factor(const ArchitectureFields& fields) {
  constexpr const char *kKey = "rope.scaling.factor", *kOlderKey = "rope.scale_linear";
  const auto read = [&](const char* name) {
    return fields.number_or(name, 0) == 0 ? 1 : fields.number_or(name, 1, 1, Limits::kMaxRopeFactor);
  };
  if (fields.has(kKey) && fields.has(kOlderKey) && read(kKey) != read(kOlderKey))
    fields.fail(kOlderKey, fmt::format("found {}, but {} is {}; expected one number", read(kOlderKey),
                                       fields.key(kKey), read(kKey)));
  return read(fields.has(kKey) ? kKey : kOlderKey);
}

// 1 switches YaRN's interpolation on, 0 switches it off; a negative value means that the type decides.
void check_yarn_extrapolation(const ArchitectureFields& fields, bool is_yarn) {
  constexpr const char* kKey = "rope.scaling.yarn_ext_factor";
  const double found = fields.number_or(kKey, -1), expected = is_yarn ? 1 : 0;
  if (found >= 0 && found != expected)
    fields.fail(kKey, fmt::format("found {}; supported: {}", found, expected));
}

// config.json's "rope_scaling"; nullopt if RoPE is not scaled. The default type is "linear", as in llama.cpp.
std::optional<json> rope_scaling(const ArchitectureFields& fields, const json& config) {
  constexpr const char* kType = "rope.scaling.type";
  const std::string type = fields.all().text_or(fields.key(kType), "linear");
  if (type != "none" && type != "linear" && type != "yarn")
    fields.fail(kType,
                fmt::format("found {}; supported: \"none\", \"linear\" and \"yarn\"", in_quotes(type)));
  check_yarn_extrapolation(fields, type == "yarn");
  const double factor = read_rope_factor(fields);
  if (type == "none" || factor == 1) return std::nullopt;
  json scaling = {{"rope_type", type}, {"factor", factor}};
  if (type == "linear") return scaling;
  constexpr double kMaxTurns = 1e6, kBetaFast = 32, kBetaSlow = 1;
  scaling["original_max_position_embeddings"] =
      fields.find_integer("rope.scaling.original_context_length", Limits::kMaxPosition)
          .value_or(config["max_position_embeddings"].get<int64_t>());
  scaling["beta_fast"] = fields.number_or("rope.scaling.yarn_beta_fast", kBetaFast, 1 / kMaxTurns, kMaxTurns);
  scaling["beta_slow"] = fields.number_or("rope.scaling.yarn_beta_slow", kBetaSlow, 1 / kMaxTurns, kMaxTurns);
  return scaling;
}

// As llama.cpp's load_hparams and context: the attention factor multiplies cosines and sines in addition to
// YaRN's own factor, and the divisors apply to frequencies before scaling.
void add_rope(const ArchitectureFields& fields, const GgufTensor* divisors, int64_t head_dim, json& config) {
  constexpr double kDefaultTheta = 1e4, kMaxAttentionFactor = 1e3;
  const double theta = fields.number_or("rope.freq_base", kDefaultTheta, 1, Limits::kMaxRopeTheta);
  config["rope_theta"] = theta;
  auto scaling = rope_scaling(fields, config);
  json gguf = {{"attention_factor", fields.number_or("rope.scaling.attn_factor", 1, 1 / kMaxAttentionFactor,
                                                     kMaxAttentionFactor)}};
  if (divisors != nullptr) {
    if (fields.model_type() != "llama") {
      fields.all().fail(kRopeFactors, fmt::format("models of the architecture {} are supported without it",
                                                  fields.model_type()));
    }
    const std::vector<float> values = read_divisors(fields.all(), *divisors, head_dim);
    const auto llama3 = scaling ? std::nullopt : llama3_scaling(values, theta);
    if (llama3) {
      scaling = llama3;
    } else {
      gguf["divisors"] = values;
    }
  }
  if (scaling) config["rope_scaling"] = *scaling;
  config["gguf_rope"] = gguf;
}

// vocab_size must be the number of rows of the embedding.
void check_vocabulary(const ArchitectureFields& fields, int64_t rows) {
  const auto stated = fields.find_integer("vocab_size", INT64_MAX);
  if (stated && *stated != rows)
    fields.fail("vocab_size", fmt::format("found {}, but {} has {} rows", *stated, kEmbeddingTensor, rows));
}

void add_window(const ArchitectureFields& fields, json& config) {
  if (const auto window = fields.find_integer("attention.sliding_window", Limits::kMaxPosition))
    config["sliding_window"] = *window;
}

void add_special_tokens(const GgufFields& fields, json& config) {
  const auto token = [&](const char* key) {
    return fields.find_integer(std::string("tokenizer.ggml.") + key, 0, Limits::kMaxVocabSize - 1);
  };
  if (const auto bos = token("bos_token_id")) config["bos_token_id"] = *bos;
  json ends = json::array();
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const auto id = token(key);
    if (id && std::ranges::find(ends, json(*id)) == ends.end()) ends.push_back(*id);
  }
  config["eos_token_id"] = ends;
}

// Translates the metadata into a config.json, which the readers of architectures accept.
json config_of(const GgufFields& all, const FindGgufTensor& find_tensor) {
  const ArchitectureFields fields(all);
  const GgufTensor* embedding = find_tensor(kEmbeddingTensor);
  if (embedding == nullptr) all.fail(kEmbeddingTensor, "missing");
  check_options(fields);
  check_vocabulary(fields, embedding->shape.front());
  json config = {{"model_type", fields.model_type()},
                 {"hidden_size", fields.integer("embedding_length", Limits::kMaxHiddenSize)},
                 {"intermediate_size", fields.integer("feed_forward_length", Limits::kMaxIntermediateSize)},
                 {"num_hidden_layers", fields.integer("block_count", Limits::kMaxLayers)},
                 {"vocab_size", embedding->shape.front()},
                 {"max_position_embeddings", fields.integer("context_length", Limits::kMaxPosition)},
                 {"tie_word_embeddings", find_tensor(kOutputTensor) == nullptr}};
  const char* epsilon = "attention.layer_norm_rms_epsilon";
  if (!fields.has(epsilon)) fields.fail(epsilon, "missing");
  config["rms_norm_eps"] = *fields.find_number(epsilon);
  add_heads(fields, config);
  const int64_t hidden = config["hidden_size"], heads = config["num_attention_heads"];
  add_rope(fields, find_tensor(kRopeFactors), config.value("head_dim", hidden / heads), config);
  add_window(fields, config);
  add_special_tokens(all, config);
  return config;
}

}  // namespace

std::shared_ptr<const Model> read_gguf_model(const GgufFields& fields, const FindGgufTensor& find_tensor,
                                             const std::string& name) {
  return parse_model_tree(config_of(fields, find_tensor), fields.source(), name);
}

std::optional<PoolingConfig> read_gguf_pooling(const GgufFields& fields) {
  constexpr int64_t kMostType = 16;
  const ArchitectureFields own(fields);
  const int64_t type = own.find_integer("pooling_type", kMostType).value_or(0);
  switch (type) {
    case 0:
      return std::nullopt;
    case 1:
      return PoolingConfig{.pooling = Pooling::kMean};
    case 2:
      return PoolingConfig{.pooling = Pooling::kCls};
    case 3:
      return PoolingConfig{.pooling = Pooling::kLast};
    default:
      own.fail("pooling_type", fmt::format("found {}; supported: 1 (mean), 2 (CLS) and 3 (last)", type));
  }
}

}  // namespace serval
