#include "models/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "models/architectures.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = ConfigLimits;

// GGUF's names of architectures, under which the fields are filed. The same words are config.json's
// model_type.
constexpr std::string_view kArchitectures[] = {"llama", "qwen2", "qwen3"};

constexpr const char* kArchitectureKey = "general.architecture";
constexpr const char* kEmbeddingTensor = "token_embd.weight";
constexpr const char* kOutputTensor = "output.weight";
constexpr const char* kRopeFactors = "rope_freqs.weight";

// Fields that change what a model computes, where their value is not the one that changes nothing.
constexpr const char* kParts[] = {"expert_count",
                                  "attention.clamp_kqv",
                                  "attention.max_alibi_bias",
                                  "attn_logit_softcapping",
                                  "final_logit_softcapping",
                                  "attention.sliding_window_pattern",
                                  "pooling_type"};
constexpr const char* kFactors[] = {"logit_scale", "residual_scale", "embedding_scale"};

// One architecture's fields.
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

void check_options(const ArchitectureFields& fields) {
  for (const char* name : kParts) {
    const auto value = fields.find_number(name);
    if (value && *value != 0)
      fields.fail(name, fmt::format("found {}; supported: models without it", *value));
  }
  for (const char* name : kFactors) {
    const auto value = fields.find_number(name);
    if (value && *value != 1) fields.fail(name, fmt::format("found {}; supported: 1", *value));
  }
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
}

// Llama 3.x stores what the frequencies are divided by, not the four numbers that it follows from. Of those,
// all but the factor are the same in every published model.
json llama3_scaling(const GgufFields& fields, const GgufTensor& divisors, double theta) {
  constexpr double kLowFactor = 1, kHighFactor = 4, kOriginalContext = 8192;
  constexpr double kMostOff = 1e-4;
  const auto fail = [&](const std::string& problem) {
    fields.fail(kRopeFactors, problem + "; supported: those of Llama 3");
  };
  const auto pairs = static_cast<size_t>(divisors.shape.back());
  if (divisors.type->name != "F32" || divisors.shape.size() != 1 || pairs > Limits::kMaxHiddenSize)
    fail("factors of another type or shape");
  std::vector<float> found(pairs);
  divisors.type->decode(divisors.bytes.data(), pairs, found.data());
  const double factor = found.back();
  if (!(factor >= 1 && factor <= Limits::kMaxRopeFactor)) fail(fmt::format("found the factor {}", factor));
  for (size_t i = 0; i < pairs; ++i) {
    const double wavelength = 2 * M_PI * std::pow(theta, static_cast<double>(i) / static_cast<double>(pairs));
    const double turns = kOriginalContext / wavelength;
    const double kept = std::clamp((turns - kLowFactor) / (kHighFactor - kLowFactor), 0.0, 1.0);
    const double expected = 1 / ((1 - kept) / factor + kept);
    if (!(std::abs(found[i] - expected) <= kMostOff * expected))
      fail(fmt::format("factor {} is {}, expected {:.6g}", i, found[i], expected));
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kLowFactor},
          {"high_freq_factor", kHighFactor},
          {"original_max_position_embeddings", static_cast<int64_t>(kOriginalContext)}};
}

void add_rope(const ArchitectureFields& fields, const GgufTensor* divisors, json& config) {
  constexpr double kDefaultTheta = 1e4;  // llama.cpp's where the file is silent
  const double theta = fields.find_number("rope.freq_base").value_or(kDefaultTheta);
  config["rope_theta"] = theta;
  if (fields.has("rope.scaling.type")) {
    const std::string type = fields.all().text_or(fields.key("rope.scaling.type"), "none");
    const double factor = fields.find_number("rope.scaling.factor").value_or(1);
    if (type != "none" && !(type == "linear" && factor == 1))
      fields.fail("rope.scaling.type", fmt::format("found {}; supported: \"none\"", in_quotes(type)));
  }
  if (divisors != nullptr) config["rope_scaling"] = llama3_scaling(fields.all(), *divisors, theta);
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

// The words of config.json, in which the readers of architectures take a model.
json config_of(const GgufFields& all, const FindGgufTensor& find_tensor) {
  const ArchitectureFields fields(all);
  const GgufTensor* embedding = find_tensor(kEmbeddingTensor);
  if (embedding == nullptr) all.fail(kEmbeddingTensor, "missing");
  check_options(fields);
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
  add_rope(fields, find_tensor(kRopeFactors), config);
  add_window(fields, config);
  add_special_tokens(all, config);
  return config;
}

}  // namespace

std::shared_ptr<const Model> read_gguf_model(const GgufFields& fields, const FindGgufTensor& find_tensor,
                                             const std::string& name) {
  return parse_model_tree(config_of(fields, find_tensor), fields.source(), name);
}

}  // namespace serval
