#include "models/llama/rope_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "spdlog/spdlog.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = ConfigLimits;

constexpr double kDefaultTheta = 1e4;  // of LlamaConfig and the configurations derived from it
constexpr double kMaxAttentionFactor = 1e3;
constexpr double kMaxTurns = 1e6;  // of beta_fast and beta_slow

// A supported rope_type and its keys besides kCommonKeys.
struct RopeType {
  std::string_view name;
  std::vector<std::string_view> keys;
};
const std::vector<RopeType>& rope_types() {
  static const std::vector<RopeType> types = {
      {"default", {}},
      {"linear", {"factor"}},
      {"dynamic", {"factor"}},
      {"yarn",
       {"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}},
      {"llama3", {"factor", "low_freq_factor", "high_freq_factor"}}};
  return types;
}
// "finetuned" has no effect: it describes the training.
constexpr std::string_view kCommonKeys[] = {
    "rope_type", "type", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings",
    "finetuned"};
// Accepted with the value 1 for types that do not use them: a factor of 1 changes nothing.
constexpr std::string_view kFactors[] = {"factor", "attention_factor", "attn_factor", "extrapolation_factor"};

// Contents of "rope_scaling" or "rope_parameters".
struct RopeObject {
  std::string key;  // of the object
  std::string type;
  RopeScaling scaling;
  double attention_factor = 1;
  int64_t max_position = 0;  // extended context
};

void check_partial_rotary(const JsonFields& fields) {
  if (fields.number_or("partial_rotary_factor", 1, 0, 1) != 1)
    fields.fail("partial_rotary_factor", "supported: 1, every element of a head is rotated");
}

// Older files spell rope_type "type".
std::string read_type(const JsonFields& fields) {
  const char* key = fields.has("rope_type") ? "rope_type" : "type";
  const std::string type = fields.text_or(key, "default");
  const std::string older = fields.text_or("type", type);
  if (older != type)
    fields.fail("type",
                fmt::format("found {}, but rope_type is {}; expected one type", shown(older), shown(type)));
  if (std::ranges::find(rope_types(), type, &RopeType::name) != rope_types().end()) return type;
  std::vector<std::string> names;
  for (const RopeType& known : rope_types()) names.push_back(fmt::format("\"{}\"", known.name));
  fields.fail(key, fmt::format("found {}; supported: {}", shown(type), fmt::join(names, ", ")));
}

// Quotes keys that are not plain words: a file may contain any key.
std::string shown_key(const std::string& key) {
  const bool is_word = std::ranges::all_of(key, [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
  return is_word && !key.empty() && key.size() < 40 ? key : shown(json(key));
}

// Refuses a key that the type does not use, unless its value has no effect.
void check_keys(const JsonFields& fields, const json& object, const std::string& type) {
  const std::vector<std::string_view>& used = std::ranges::find(rope_types(), type, &RopeType::name)->keys;
  for (const auto& [key, value] : object.items()) {
    const auto is_in = [&name = key](const auto& keys) {
      return std::ranges::find(keys, name) != std::end(keys);
    };
    if (is_in(used) || is_in(kCommonKeys) || value.is_null()) continue;
    if (is_in(kFactors) && value == 1) continue;
    fields.fail(shown_key(key),
                fmt::format("found {}; RoPE of the type \"{}\" does not use it", shown(value), type));
  }
}

int64_t read_original_position(const JsonFields& all, const JsonFields& fields, const LlamaConfig& config) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const auto read = [&](const JsonFields& from, int64_t otherwise) {
    return from.integer_or(kKey, otherwise, 1, Limits::kMaxPosition);
  };
  const int64_t outside = read(all, read(fields, config.max_position)), inside = read(fields, outside);
  if (inside != outside)
    fields.fail(kKey, fmt::format("found {}, but {} beside it; expected one number", inside, outside));
  return outside;
}

double read_factor(const JsonFields& fields) {
  return fields.number("factor", 1, Limits::kMaxRopeFactor);
}

Llama3RopeScaling read_llama3(const JsonFields& fields, int64_t original_position) {
  const Llama3RopeScaling scaling = {
      .factor = read_factor(fields),
      .low_freq_factor = fields.number("low_freq_factor", 1 / Limits::kMaxRopeFactor, Limits::kMaxRopeFactor),
      .high_freq_factor =
          fields.number("high_freq_factor", 1 / Limits::kMaxRopeFactor, Limits::kMaxRopeFactor),
      .original_max_position = original_position,
  };
  if (scaling.low_freq_factor >= scaling.high_freq_factor)
    fields.fail("low_freq_factor", fmt::format("found {}, must be below high_freq_factor {}",
                                               scaling.low_freq_factor, scaling.high_freq_factor));
  return scaling;
}

// "factor": null means max_position_embeddings / original_max_position_embeddings.
YarnRopeScaling read_yarn(const JsonFields& fields, const LlamaConfig& config, int64_t original_position) {
  const bool is_ratio = fields.mentions("factor") && !fields.has("factor");
  const double ratio = static_cast<double>(config.max_position) / static_cast<double>(original_position);
  const auto turns = [&](const char* key, double otherwise) {  // 0 means the default too
    const double value = fields.number_or(key, otherwise, 0, kMaxTurns);
    return value == 0 ? otherwise : value;
  };
  return {.factor = is_ratio ? std::max(ratio, 1.0) : read_factor(fields),
          .beta_fast = turns("beta_fast", 32),
          .beta_slow = turns("beta_slow", 1),
          .truncate = fields.boolean_or("truncate", true),
          .original_max_position = original_position};
}

double read_yarn_attention(const JsonFields& fields, double factor) {
  constexpr double kTolerance = 1e-6;  // relative
  const auto mscale_of = [factor](double scale) { return 0.1 * scale * std::log(factor) + 1; };
  const double scale = fields.number_or("mscale", 0, 0, kMaxAttentionFactor);
  const double scale_all = fields.number_or("mscale_all_dim", 0, 0, kMaxAttentionFactor);
  if ((scale == 0) != (scale_all == 0)) {
    const auto [has, lacks] =
        scale == 0 ? std::pair("mscale_all_dim", "mscale") : std::pair("mscale", "mscale_all_dim");
    fields.fail(has, fmt::format("found {}, but no {}; expected both or none", scale + scale_all, lacks));
  }
  const double by_scales = scale == 0 ? mscale_of(1) : mscale_of(scale) / mscale_of(scale_all);
  if (!fields.has("attention_factor")) return by_scales;
  const double stated = fields.number("attention_factor", 1 / kMaxAttentionFactor, kMaxAttentionFactor);
  if (scale != 0 && std::abs(stated - by_scales) > kTolerance * by_scales) {
    fields.fail("attention_factor",
                fmt::format("found {}, but mscale and mscale_all_dim give {}; expected one factor", stated,
                            by_scales));
  }
  return stated;
}

int64_t scaled_context(int64_t positions, double factor) {
  const double most = static_cast<double>(positions) * factor;
  return static_cast<int64_t>(std::min(most, static_cast<double>(Limits::kMaxPosition)));
}

RopeObject read_rope_object(const JsonFields& all, const char* key, const LlamaConfig& config) {
  const JsonFields fields = all.object(key);
  check_partial_rotary(fields);
  RopeObject rope{key, read_type(fields), {}, 1, config.max_position};
  check_keys(fields, *all.find(key), rope.type);
  const int64_t original = read_original_position(all, fields, config);
  if (rope.type == "linear") {
    rope.scaling = LinearRopeScaling{read_factor(fields)};
    rope.max_position = scaled_context(original, read_factor(fields));
  } else if (rope.type == "llama3") {
    rope.scaling = read_llama3(fields, original);
  } else if (rope.type == "yarn") {
    const YarnRopeScaling scaling = read_yarn(fields, config, original);
    rope.scaling = scaling;
    rope.attention_factor = read_yarn_attention(fields, scaling.factor);
    rope.max_position = scaled_context(original, scaling.factor);
  } else if (rope.type == "dynamic") {
    read_factor(fields);
    if (original != config.max_position) {
      fields.fail("original_max_position_embeddings",
                  fmt::format("found {}; supported with the type \"dynamic\": max_position_embeddings {}",
                              original, config.max_position));
    }
  }
  return rope;
}

// An empty object counts as missing.
bool has_rope_object(const JsonFields& all, const char* key) {
  const json* object = all.find(key);
  return object != nullptr && !(object->is_object() && object->empty());
}

std::optional<RopeObject> find_rope_object(const JsonFields& all, const char* key,
                                           const LlamaConfig& config) {
  return has_rope_object(all, key) ? std::optional(read_rope_object(all, key, config)) : std::nullopt;
}

// Files may have both objects: rope_scaling wins, and rope_parameters must agree with it or not scale.
std::optional<RopeObject> find_scaling(const JsonFields& all, const LlamaConfig& config) {
  auto older = find_rope_object(all, "rope_scaling", config),
       newer = find_rope_object(all, "rope_parameters", config);
  if (!older || !newer) return older ? older : newer;
  const bool same = older->scaling == newer->scaling && older->attention_factor == newer->attention_factor;
  if (same || newer->type == "default") return older;
  all.fail("rope_scaling",
           fmt::format("says \"{}\", but rope_parameters says \"{}\"{}; expected one way to scale",
                       older->type, newer->type, older->type == newer->type ? " with other numbers" : ""));
}

double read_theta(const JsonFields& all) {
  std::optional<double> theta;
  std::string where;
  const auto add = [&](const JsonFields& fields, const std::string& prefix) {
    if (!fields.has("rope_theta")) return;
    const double found = fields.number("rope_theta", 1, Limits::kMaxRopeTheta);
    if (theta && *theta != found) {
      fields.fail("rope_theta",
                  fmt::format("found {}, but {}rope_theta is {}; expected one number", found, where, *theta));
    }
    theta = found;
    where = prefix;
  };
  add(all, "");
  if (has_rope_object(all, "rope_scaling")) add(all.object("rope_scaling"), "rope_scaling.");
  if (!has_rope_object(all, "rope_parameters")) return theta.value_or(kDefaultTheta);
  const bool transformers_ignores_it = !theta && has_rope_object(all, "rope_scaling");
  add(all.object("rope_parameters"), "rope_parameters.");
  if (transformers_ignores_it && theta.value_or(kDefaultTheta) != kDefaultTheta) {
    spdlog::warn("{}: using {}; transformers uses {} unless rope_scaling has a rope_theta",
                 all.where("rope_parameters.rope_theta"), *theta, kDefaultTheta);
  }
  return theta.value_or(kDefaultTheta);
}

// Fields of GGUF files that config.json does not have. models/gguf/gguf_config.cc writes them.
void read_gguf_rope(const JsonFields& all, LlamaConfig& config) {
  if (!all.has("gguf_rope")) return;
  const JsonFields fields = all.object("gguf_rope");
  config.rope_attention_factor *=
      fields.number_or("attention_factor", 1, 1 / kMaxAttentionFactor, kMaxAttentionFactor);
  const json* divisors = fields.find("divisors");
  if (divisors == nullptr) return;
  if (!divisors->is_array() || divisors->size() != static_cast<size_t>(config.head_dim / 2))
    fields.fail("divisors", fmt::format("expected an array of {} numbers", config.head_dim / 2));
  for (const json& divisor : *divisors) {
    const double value = divisor.is_number() ? divisor.get<double>() : 0;
    if (!(value >= 1 / Limits::kMaxRopeFactor && value <= Limits::kMaxRopeFactor))
      fields.fail("divisors", fmt::format("found {}, expected a number from {} to {}", shown(divisor),
                                          1 / Limits::kMaxRopeFactor, Limits::kMaxRopeFactor));
    config.rope_divisors.push_back(static_cast<float>(value));
  }
}

}  // namespace

void read_rope(const JsonFields& fields, LlamaConfig& config) {
  check_partial_rotary(fields);
  config.rope_theta = read_theta(fields);
  if (const auto rope = find_scaling(fields, config)) {
    config.rope_scaling = rope->scaling;
    config.rope_attention_factor = rope->attention_factor;
    config.max_position = std::max(config.max_position, static_cast<int>(rope->max_position));
    if (rope->type == "yarn" && config.rope_theta == 1)
      fields.fail("rope_theta", "found 1; RoPE of the type \"yarn\" needs more");
  }
  read_gguf_rope(fields, config);
}

void add_rope_parameters(const LlamaConfig& config, std::map<std::string, double>& parameters) {
  const auto add = [&](const char* key, double value) {
    parameters[std::string("rope_scaling.") + key] = value;
  };
  constexpr const char* kOriginal = "original_max_position_embeddings";
  parameters["rope_theta"] = config.rope_theta;
  if (config.rope_attention_factor != 1) add("attention_factor", config.rope_attention_factor);
  if (const auto* linear = std::get_if<LinearRopeScaling>(&config.rope_scaling))
    add("factor", linear->factor);
  if (const auto* llama3 = std::get_if<Llama3RopeScaling>(&config.rope_scaling)) {
    add("factor", llama3->factor);
    add("low_freq_factor", llama3->low_freq_factor);
    add("high_freq_factor", llama3->high_freq_factor);
    add(kOriginal, static_cast<double>(llama3->original_max_position));
  }
  if (const auto* yarn = std::get_if<YarnRopeScaling>(&config.rope_scaling)) {
    add("factor", yarn->factor);
    add("beta_fast", yarn->beta_fast);
    add("beta_slow", yarn->beta_slow);
    add("truncate", yarn->truncate ? 1 : 0);
    add(kOriginal, static_cast<double>(yarn->original_max_position));
  }
  for (size_t pair = 0; pair < config.rope_divisors.size(); ++pair)
    parameters[fmt::format("rope_freqs.{}", pair)] = config.rope_divisors[pair];
}

}  // namespace serval
