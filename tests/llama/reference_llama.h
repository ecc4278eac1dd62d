// Llama's forward pass written from its formulas, one token after another. Uses the engine's code only for
// the names of weights and for bf16 conversions. Sums are in double; values are rounded to bf16 where docs
// and ISA define it: the residual times the weights of a norm, Q after RoPE, K, V, the attention
// probabilities and output, the SiLU product.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/weights.h"
#include "models/llama/config.h"

namespace serval::testing {

class ReferenceLlama {
 public:
  // The weights must outlive it. Without `rounding`, nothing is rounded to bf16.
  ReferenceLlama(const LlamaConfig& config, const ModelWeights& weights, bool rounding = true)
      : config_(config), weights_(weights), rounding_(rounding) {}

  // Logits after the last of the tokens: [vocabulary].
  std::vector<float> logits(std::span<const int32_t> tokens) const;

 private:
  using Vector = std::vector<float>;
  struct Cache {
    std::vector<Vector> k, v;  // [tokens][kv_heads × head_dim]
  };

  float rounded(double x) const;
  Vector multiply(const std::string& name, const Vector& x) const;
  Vector normalise(const std::string& name, const Vector& x) const;
  void normalise_heads(const std::string& name, Vector& heads) const;
  void rotate(Vector& heads, size_t position) const;
  Vector attend(const Vector& q, const Cache& cache) const;
  void layer(int index, size_t position, Vector& x, Cache& cache) const;

  const LlamaConfig& config_;
  const ModelWeights& weights_;
  const bool rounding_;
};

}  // namespace serval::testing
