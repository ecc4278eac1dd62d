// A model of Llama's kind, as its config.json describes it.
//
// Field names and defaults follow transformers' LlamaConfig, in both spellings of RoPE: "rope_theta" with
// "rope_scaling" (transformers 4) and "rope_parameters" (transformers 5).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/architecture.h"
#include "models/model.h"

namespace serval {

// The "llama3" rope_type: long wavelengths are stretched by `factor`, short ones kept, those between
// interpolated.
struct Llama3RopeScaling {
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  int64_t original_max_position;  // tokens
};

struct LlamaConfig final : Model {
  double rms_norm_eps = 0;
  double rope_theta = 0;
  std::optional<Llama3RopeScaling> rope_scaling;
  bool qkv_bias = false;  // Q, K and V have biases, the output projection has none
  bool qk_norm = false;   // RMS norms of the heads of Q and K, before RoPE

  std::vector<WeightSpec> weights() const override;
  std::vector<ModelConstant> constants(uint32_t context) const override;
  Graph graph(const GraphOptions& options) const override;
  bool has_tile_order() const override { return !qk_norm; }
  std::unique_ptr<const Model> shortened(int layers) const override;
  std::map<std::string, double> parameters() const override;
};

// Those that this folder reads.
std::span<const Architecture> llama_architectures();

}  // namespace serval
