// The reference: Llama's forward pass in LibTorch's operators, one line for each, without any of Serval's
// arithmetic.
#pragma once

#include <ATen/ATen.h>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/torch/oracle_api.h"

namespace serval::torch_plugin {

using WeightTable = std::map<std::string, ServalOracleWeight>;

// One thread at a time. Errors are exceptions: c10::Error, or std::invalid_argument for invalid arguments.
class EagerLlama {
 public:
  EagerLlama(const ServalOracleConfig& config, const WeightTable& weights);

  // fp32 logits [num_logits, vocab] on the CPU. Writes the tokens' keys and values to their cells.
  at::Tensor forward(const ServalOracleTokens& input);

  // x [..., in] to [..., out].
  struct Projection {
    at::Tensor weight;  // [out, in]
    at::Tensor bias;    // [out]; undefined if the checkpoint has none
    at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
  };
  struct Layer {
    at::Tensor input_norm, post_attention_norm;  // [hidden]
    Projection query, key, value, output;
    at::Tensor query_norm, key_norm;  // [head_dim]; undefined if heads have none
    Projection gate, up, down;
    at::Tensor cached_keys, cached_values;  // [cells, KV heads, head_dim]
  };
  const ServalOracleConfig& config() const { return config_; }
  const at::Tensor& frequencies() const { return inverse_frequencies_; }
  const at::Tensor& embedding() const { return embedding_; }
  const at::Tensor& final_norm() const { return final_norm_; }
  const at::Tensor& lm_head() const { return lm_head_; }
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  // Data that all layers share in one call: n tokens after p earlier positions.
  struct Context {
    at::Tensor cosine, sine;  // [n, head_dim]
    at::Tensor masked;        // [n, p + n] bool: positions that the token must not attend to
    at::Tensor cells;         // [p + n]
    at::Tensor own_cells;     // [n]
  };
  class Loader;

  Context prepare(const ServalOracleTokens& input) const;
  at::Tensor attend(Layer& layer, const at::Tensor& x, const Context& context) const;
  at::Tensor feed_forward(const Layer& layer, const at::Tensor& x) const;
  at::Tensor split_heads(const at::Tensor& x, int64_t heads) const;

  const ServalOracleConfig config_;
  const at::TensorOptions options_;  // for weights and activations
  at::Tensor inverse_frequencies_;   // [head_dim / 2] fp32
  at::Tensor embedding_, final_norm_, lm_head_;
  std::vector<Layer> layers_;
};

}  // namespace serval::torch_plugin
