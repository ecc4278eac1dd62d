#include "models/checkpoint/weight_specs.h"

#include "fmt/format.h"

namespace serval {
namespace {

void add_layer(const LlamaConfig& config, int layer, std::vector<WeightSpec>& specs) {
  const int64_t hidden = config.hidden_size;
  const int64_t query = int64_t{config.num_heads} * config.head_dim;
  const int64_t key_value = int64_t{config.num_kv_heads} * config.head_dim;
  const auto add = [&](const char* part, WeightKind kind, int64_t rows, int64_t cols) {
    specs.push_back({layer_weight_name(layer, part), kind, rows, cols});
  };
  add("input_layernorm", WeightKind::kNorm, 1, hidden);
  add("self_attn.q_proj", WeightKind::kMatrix, query, hidden);
  add("self_attn.k_proj", WeightKind::kMatrix, key_value, hidden);
  add("self_attn.v_proj", WeightKind::kMatrix, key_value, hidden);
  add("self_attn.o_proj", WeightKind::kMatrix, hidden, query);
  add("post_attention_layernorm", WeightKind::kNorm, 1, hidden);
  add("mlp.gate_proj", WeightKind::kMatrix, config.intermediate_size, hidden);
  add("mlp.up_proj", WeightKind::kMatrix, config.intermediate_size, hidden);
  add("mlp.down_proj", WeightKind::kMatrix, hidden, config.intermediate_size);
}

}  // namespace

std::string layer_weight_name(int layer, const std::string& part) {
  return fmt::format("model.layers.{}.{}.weight", layer, part);
}

std::vector<WeightSpec> weight_specs(const LlamaConfig& config) {
  std::vector<WeightSpec> specs;
  specs.push_back({kEmbeddingName, WeightKind::kMatrix, config.vocab_size, config.hidden_size});
  for (int layer = 0; layer < config.num_layers; ++layer) add_layer(config, layer, specs);
  specs.push_back({kFinalNormName, WeightKind::kNorm, 1, config.hidden_size});
  if (!config.tie_word_embeddings)
    specs.push_back({kLmHeadName, WeightKind::kMatrix, config.vocab_size, config.hidden_size});
  return specs;
}

}  // namespace serval
