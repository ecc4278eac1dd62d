#include "models/llama/config_options.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace serval {
namespace {

using nlohmann::json;

// Keys of parts that Llama does not have. Absent, null, false, 0 or an empty value means that this model has
// no such part either.
constexpr const char* kParts[] = {
    // biases of projections
    "attention_bias", "attention_out_bias", "bias", "lm_head_bias", "mlp_bias", "projectors_bias", "qkv_bias",
    "use_bias", "use_qkv_bias",
    // norms of queries and keys; parallel attention and MLP
    "new_decoder_architecture", "parallel_attn", "qk_layernorm", "qk_ln", "use_parallel_residual",
    "use_qk_norm",
    // other positions and masks
    "add_cross_attention", "alibi", "attention_chunk_size", "attn_temperature_tuning", "is_encoder_decoder",
    "learned_pos_emb", "no_rope_layer_interval", "prefix_lm", "rope_interleave",
    "use_bidirectional_attention",
    // clipped or scaled values
    "attn_logit_softcapping", "clip_qkv", "dim_model_base", "final_logit_softcapping", "mlp_multipliers",
    "mup_enabled", "scale_depth", "scale_embedding", "softmax_scale", "swiglu_alpha", "swiglu_limit",
    // experts
    "ffn_config", "is_moe", "moe_intermediate_size", "moe_num_experts", "n_routed_experts",
    "n_shared_experts", "num_experts", "num_experts_per_tok", "num_local_experts", "num_shared_experts",
    "shared_expert_intermediate_size",
    // latent attention, layers of several kinds, nested models
    "attn_config", "block_configs", "kv_lora_rank", "multi_query", "pruned_heads", "q_lora_rank",
    "text_config", "v_head_dim"};

// Factors, whose neutral value is 1.
constexpr const char* kFactors[] = {"attention_in_multiplier",
                                    "attention_out_multiplier",
                                    "embedding_multiplier",
                                    "key_multiplier",
                                    "lm_head_multiplier",
                                    "logit_scale",
                                    "logits_scaling",
                                    "residual_multiplier",
                                    "rotary_pct",
                                    "scale_emb"};

bool is_neutral(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value == 0;
  return (value.is_array() || value.is_object()) && value.empty();
}

bool is_near(const json& value, double wanted) {
  constexpr double kTolerance = 1e-6;  // relative: files have at least seven digits
  return value.is_number() && std::abs(value.get<double>() - wanted) <= kTolerance * wanted;
}

void check_parts(const JsonFields& fields) {
  for (const char* key : kParts) {
    const json* value = fields.find(key);
    if (value == nullptr || is_neutral(*value)) continue;
    if (value->is_boolean()) fields.fail(key, "found true; supported: false");
    fields.fail(key, fmt::format("found {}; supported: models without it", shown(*value)));
  }
}

void check_factors(const JsonFields& fields, const ModelShape& model) {
  const auto check = [&](const char* key, double neutral) {
    const json* value = fields.find(key);
    if (value != nullptr && !is_near(*value, neutral))
      fields.fail(key, fmt::format("found {}; supported: {}", shown(*value), neutral));
  };
  for (const char* key : kFactors) check(key, 1);
  check("attention_multiplier", 1 / std::sqrt(model.head_dim));  // multiplies scores
  check("query_pre_attn_scalar", model.head_dim);                // its square root divides scores
}

// Accepts a window that is switched off or that covers all positions.
void check_windows(const JsonFields& fields, const ModelShape& model) {
  const bool in_use = fields.boolean_or("use_sliding_window", true);
  const json* window = fields.find("sliding_window");
  const bool cuts =
      window != nullptr && !is_neutral(*window) &&
      !(window->is_number() && *window >= model.max_position && std::isfinite(window->get<double>()));
  if (in_use && cuts)
    fields.fail("sliding_window",
                fmt::format("found {}; supported: attention to all positions", shown(*window)));
  if (const json* types = fields.find("layer_types")) {
    const bool all_full =
        types->is_array() &&
        std::all_of(types->begin(), types->end(), [](const json& type) { return type == "full_attention"; });
    if (!all_full)
      fields.fail("layer_types", fmt::format("found {}; supported: \"full_attention\"", shown(*types)));
  }
}

// Despite the key's name, 1 means that a layer uses RoPE.
void check_rotated_layers(const JsonFields& fields) {
  const json* layers = fields.find("no_rope_layers");
  if (layers == nullptr) return;
  const bool all_rotate = layers->is_array() && std::all_of(layers->begin(), layers->end(),
                                                            [](const json& layer) { return layer == 1; });
  if (!all_rotate)
    fields.fail("no_rope_layers", fmt::format("found {}; supported: 1 for each", shown(*layers)));
}

// transformers has two names for SiLU.
void check_activation(const JsonFields& fields) {
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const std::string activation = fields.text_or(key, "silu");
    if (activation != "silu" && activation != "swish")
      fields.fail(key, fmt::format("found {}; supported: \"silu\"", shown(activation)));
  }
}

}  // namespace

void check_config_options(const JsonFields& fields, const ModelShape& model) {
  check_parts(fields);
  if (!fields.boolean_or("is_causal", true)) fields.fail("is_causal", "found false; supported: true");
  check_factors(fields, model);
  check_windows(fields, model);
  check_rotated_layers(fields);
  check_activation(fields);
}

}  // namespace serval
