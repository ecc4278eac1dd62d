// Keys of config.json that change what a model computes: unsupported values are refused by name.
#include "models/llama/config_options.h"

#include <cmath>

#include "nlohmann/json.hpp"

#include "tests/checkpoint/test_files.h"
#include "tests/llama/configs.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

LlamaConfig with(const std::string& key, const json& value) {
  json document = json::parse(tiny_config_json(true));
  document[key] = value;
  return parse_config(document.dump(), "config");
}

std::string error_with(const std::string& key, const json& value) {
  return error_of([&] { with(key, value); });
}

// Keys with values of models in transformers.
const std::vector<std::pair<std::string, json>> kRefused = {
    {"add_cross_attention", true},
    {"alibi", true},
    {"attention_bias", true},
    {"attention_chunk_size", 8192},
    {"attention_in_multiplier", 0.5},
    {"attention_multiplier", 0.015625},
    {"attention_out_bias", true},
    {"attention_out_multiplier", 0.9375},
    {"attn_config", {{"clip_qkv", 8}}},
    {"attn_logit_softcapping", 50.0},
    {"attn_temperature_tuning", 4},
    {"bias", true},
    {"block_configs", json::array({json::object()})},
    {"clip_qkv", 8.0},
    {"dim_model_base", 256},
    {"embedding_multiplier", 12.0},
    {"ffn_config", {{"moe_num_experts", 16}}},
    {"final_logit_softcapping", 30.0},
    {"hidden_act", "gelu"},
    {"hidden_activation", "gelu_pytorch_tanh"},
    {"is_encoder_decoder", true},
    {"is_moe", true},
    {"key_multiplier", 0.39},
    {"kv_lora_rank", 512},
    {"layer_types", {"full_attention", "sliding_attention"}},
    {"learned_pos_emb", true},
    {"lm_head_bias", true},
    {"lm_head_multiplier", 0.0195},
    {"logit_scale", 0.0625},
    {"logits_scaling", 8.0},
    {"mlp_bias", true},
    {"mlp_multipliers", {0.88, 0.58}},
    {"moe_intermediate_size", 1408},
    {"moe_num_experts", 16},
    {"multi_query", true},
    {"mup_enabled", true},
    {"n_routed_experts", 256},
    {"n_shared_experts", 1},
    {"new_decoder_architecture", true},
    {"no_rope_layer_interval", 4},
    {"no_rope_layers", {1, 1, 1, 0}},
    {"num_experts", 64},
    {"num_experts_per_tok", 8},
    {"num_local_experts", 8},
    {"num_shared_experts", 1},
    {"parallel_attn", true},
    {"partial_rotary_factor", 0.25},
    {"prefix_lm", true},
    {"projectors_bias", true},
    {"pruned_heads", {{"0", {1}}}},
    {"q_lora_rank", 1536},
    {"qk_layernorm", true},
    {"qk_ln", true},
    {"qkv_bias", true},
    {"query_pre_attn_scalar", 256},
    {"residual_multiplier", 0.22},
    {"rope_interleave", true},
    {"rotary_pct", 0.25},
    {"scale_depth", 1.4},
    {"scale_emb", 12},
    {"scale_embedding", true},
    {"shared_expert_intermediate_size", 5632},
    {"sliding_window", 128},
    {"softmax_scale", 0.1},
    {"swiglu_alpha", 1.702},
    {"swiglu_limit", 7.0},
    {"text_config", {{"hidden_size", 64}}},
    {"use_bias", true},
    {"use_bidirectional_attention", true},
    {"use_parallel_residual", true},
    {"use_qk_norm", true},
    {"use_qkv_bias", true},
    {"v_head_dim", 128},
};

TEST(ConfigOptions, EachKeyThatAsksForAnotherForwardPassIsRefusedByName) {
  for (const auto& [key, value] : kRefused) {
    EXPECT_THAT(error_with(key, value), StartsWith("config: " + key + ": ")) << value;
  }
}

TEST(ConfigOptions, NullEqualsAMissingKey) {
  for (const auto& [key, value] : kRefused) EXPECT_NO_THROW(with(key, nullptr)) << key;
}

TEST(ConfigOptions, ValuesThatChangeNothingAreAccepted) {
  const std::vector<std::pair<std::string, json>> accepted = {
      {"attention_bias", false},
      {"attention_multiplier", 0.125},  // 1 / sqrt(64)
      {"attn_logit_softcapping", 0},
      {"embedding_multiplier", 1.0},
      {"hidden_act", "silu"},
      {"hidden_act", "swish"},
      {"hidden_activation", "swish"},
      {"layer_types", {"full_attention"}},
      {"logit_scale", 1},
      {"logits_scaling", 1.0},
      {"no_rope_layers", {1}},
      {"num_experts", 0},
      {"num_local_experts", 0},
      {"partial_rotary_factor", 1.0},
      {"pruned_heads", json::object()},
      {"query_pre_attn_scalar", 64},
      {"residual_multiplier", 1.0},
      {"sliding_window", 256},  // covers all positions
      {"use_sliding_window", false},
  };
  for (const auto& [key, value] : accepted) EXPECT_NO_THROW(with(key, value)) << key;
}

TEST(ConfigOptions, ADisabledSlidingWindowIsAccepted) {
  json document = json::parse(tiny_config_json(true));
  document["sliding_window"] = 128;
  document["use_sliding_window"] = false;
  EXPECT_NO_THROW(parse_config(document.dump(), "config"));
  document["use_sliding_window"] = true;
  EXPECT_EQ(error_of([&] { parse_config(document.dump(), "config"); }),
            "config: sliding_window: found 128; supported: attention to all positions");
}

TEST(ConfigOptions, NameTheSupportedValues) {
  EXPECT_EQ(error_with("logits_scaling", 8), "config: logits_scaling: found 8; supported: 1");
  EXPECT_EQ(error_with("attention_multiplier", 1), "config: attention_multiplier: found 1; supported: 0.125");
  EXPECT_EQ(error_with("num_experts", 64), "config: num_experts: found 64; supported: models without it");
  EXPECT_EQ(error_with("mlp_bias", true), "config: mlp_bias: found true; supported: false");
  EXPECT_EQ(error_with("mlp_bias", "yes"), "config: mlp_bias: found \"yes\"; supported: models without it");
}

// Keys about training and serving, and unknown keys.
TEST(ConfigOptions, InformationalKeysAreAccepted) {
  for (const char* key :
       {"attention_dropout", "initializer_range", "pretraining_tp", "use_cache", "torch_dtype", "dtype",
        "transformers_version", "pad_token_id", "output_router_logits", "router_aux_loss_coef",
        "max_window_layers", "hidden_dropout", "embd_pdrop", "resid_pdrop", "unsloth_version",
        "_name_or_path", "id2label", "x"}) {
    for (const json& value :
         {json(0.1), json(true), json("text"), json::array({1}), json::object({{"a", 1}})})
      EXPECT_NO_THROW(with(key, value)) << key;
  }
}

}  // namespace
}  // namespace serval
