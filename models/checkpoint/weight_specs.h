// Which tensors a Llama model has, under Hugging Face's names, and their shapes. No weight is touched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/checkpoint/config.h"

namespace serval {

enum class WeightKind { kMatrix, kNorm };

// Row-major; a matrix maps a vector of `cols` elements to one of `rows`. A norm has rows = 1.
struct WeightSpec {
  std::string name;
  WeightKind kind;
  int64_t rows;
  int64_t cols;
  int64_t elements() const { return rows * cols; }
};

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kFinalNormName = "model.norm.weight";
inline constexpr const char* kLmHeadName = "lm_head.weight";

// "model.layers.{layer}.{part}.weight"; the parts are self_attn.{q,k,v,o}_proj, mlp.{gate,up,down}_proj,
// input_layernorm and post_attention_layernorm.
std::string layer_weight_name(int layer, const std::string& part);

// In the order in which a forward pass uses them: the embedding, each layer's, the final norm, and, unless it
// is tied to the embedding, the LM head.
std::vector<WeightSpec> weight_specs(const LlamaConfig& config);

}  // namespace serval
