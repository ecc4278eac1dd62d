// Models for tests: random weights, small in every dimension but with a realistic structure.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "models/llama/config.h"
#include "vm/state/attention.h"

namespace serval::testing {

// Grouped-query attention with a width different from `hidden_size`, an odd vocabulary, tied embeddings,
// "llama3" scaling with all three of its branches.
inline LlamaConfig tiny_config() {
  LlamaConfig config;
  config.name = "tiny";
  config.hidden_size = 96;
  config.intermediate_size = 176;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.vocab_size = 203;
  config.max_position = 1024;
  config.rms_norm_eps = 1e-5;
  config.rope_theta = 10000;
  config.rope_scaling = Llama3RopeScaling{8, 1, 4, 256};
  config.tie_word_embeddings = true;
  return config;
}

// head_dim 128, a KV head for every query head, a separate LM head, plain RoPE.
inline LlamaConfig tiny_untied_config() {
  LlamaConfig config = tiny_config();
  config.name = "tiny-untied";
  config.hidden_size = 64;
  config.num_layers = 2;
  config.num_heads = config.num_kv_heads = 3;
  config.head_dim = 128;
  config.vocab_size = 64;
  config.rope_scaling = {};
  config.tie_word_embeddings = false;
  return config;
}

// Heads and columns can be shared by 2, 4 and 8 ranks. With 8 KV heads each rank has its own; with 2, several
// ranks have the same one.
inline LlamaConfig tiny_shared_config(int kv_heads = 8) {
  LlamaConfig config = tiny_config();
  config.name = "tiny-shared";
  config.hidden_size = 128;
  config.intermediate_size = 256;
  config.num_layers = 2;
  config.num_heads = 8;
  config.num_kv_heads = kv_heads;
  config.max_position = 2 * kPlannedLeafTokens;  // so that there are leaves to merge
  return config;
}

// For programs of tiles on 4 and 8 ranks: each rank's slice of the residual consists of whole groups of
// squares. There are fewer KV heads than ranks.
inline LlamaConfig tiny_sliced_config() {
  LlamaConfig config = tiny_shared_config(2);
  config.name = "tiny-sliced";
  config.hidden_size = 512;
  config.intermediate_size = 512;
  return config;
}

// So wide relative to its few heads that programs of tiles have 2 K splits of a rank's Q, K and V.
inline LlamaConfig tiny_wide_config() {
  LlamaConfig config = tiny_shared_config(2);
  config.name = "tiny-wide";
  config.hidden_size = 4096;
  return config;
}

// With norms of the heads of Q and K, as in Qwen3.
inline LlamaConfig tiny_shared_head_norms_config() {
  LlamaConfig config = tiny_shared_config(2);
  config.name = "tiny-shared-head-norms";
  config.qk_norm = true;
  return config;
}

// The products of O and down have several panels of columns, the last one partial: programs of tiles have 2
// and 3 K splits of them.
inline LlamaConfig tiny_parts_config() {
  LlamaConfig config = tiny_config();
  config.name = "tiny-parts";
  config.hidden_size = 128;
  config.intermediate_size = 2112;
  config.num_layers = 2;
  config.num_heads = 18;
  config.num_kv_heads = 3;
  config.max_position = 2 * kPlannedLeafTokens;  // so that there are leaves to merge
  return config;
}

// Weights in e4m3, which passes of more than 64 rows multiply with activations in e4m3.
inline LlamaConfig tiny_e4m3_inputs_config() {
  LlamaConfig config = tiny_config();
  config.name = "tiny-e4m3-inputs";
  config.hidden_size = 128;
  config.intermediate_size = 256;
  config.formats = {.layers = DType::kE4M3, .lm_head = DType::kE4M3, .e4m3_inputs = true};
  return config;
}

// For programs of tiles with heads of 128 channels, five of Q for each of K and V. These also have 2 K splits
// of the products of O and down.
inline LlamaConfig tiny_large_heads_config() {
  LlamaConfig config = tiny_untied_config();
  config.name = "tiny-large-heads";
  config.hidden_size = 256;
  config.intermediate_size = 1088;
  config.num_heads = 10;
  config.num_kv_heads = 2;
  config.vocab_size = 500;
  config.max_position = 2 * kPlannedLeafTokens;
  return config;
}

// tiny_large_heads_config() with norms of the heads of Q and K.
inline LlamaConfig tiny_head_norms_config() {
  LlamaConfig config = tiny_large_heads_config();
  config.name = "tiny-head-norms";
  config.qk_norm = true;
  return config;
}

inline std::vector<int32_t> random_tokens(const LlamaConfig& config, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> out(count);
  for (int32_t& t : out) t = static_cast<int32_t>(random() % static_cast<uint32_t>(config.vocab_size));
  return out;
}

}  // namespace serval::testing
