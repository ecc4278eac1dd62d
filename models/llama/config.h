// The configuration of a Llama-like model, read from its config.json.
//
// Field names and defaults follow transformers' LlamaConfig. models/llama/rope_config.h reads the fields of
// RoPE.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "models/architecture.h"
#include "models/model.h"

namespace serval {

// rope_type "linear": multiplies all wavelengths by `factor`.
struct LinearRopeScaling {
  double factor;
  bool operator==(const LinearRopeScaling&) const = default;
};

// rope_type "llama3": multiplies long wavelengths by `factor`, keeps short ones, and interpolates between
// them.
struct Llama3RopeScaling {
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  int64_t original_max_position;  // tokens
  bool operator==(const Llama3RopeScaling&) const = default;
};

// rope_type "yarn" (arxiv.org/abs/2309.00071). Pairs that turn more than `beta_fast` times within the
// original context keep their wavelength. Pairs that turn less than `beta_slow` times have it multiplied by
// `factor`. Between them, a linear ramp over the pair index blends both. `truncate` rounds the ramp's ends to
// whole pairs.
struct YarnRopeScaling {
  double factor;
  double beta_fast;
  double beta_slow;
  bool truncate;
  int64_t original_max_position;  // tokens
  bool operator==(const YarnRopeScaling&) const = default;
};

// Scaling of RoPE's wavelengths; monostate: none.
using RopeScaling = std::variant<std::monostate, LinearRopeScaling, Llama3RopeScaling, YarnRopeScaling>;

struct LlamaConfig final : Model {
  double rms_norm_eps = 0;
  double rope_theta = 0;
  RopeScaling rope_scaling;
  double rope_attention_factor = 1;  // multiplies cosines and sines; scores grow by its square
  // Divisor of each pair's frequency, applied before scaling (GGUF's rope_freqs); empty: none.
  std::vector<float> rope_divisors;
  bool qkv_bias = false;  // Q, K and V have biases, the output projection has none
  bool qk_norm = false;   // RMS norm of each head of Q and K, before RoPE

  std::vector<WeightSpec> weights() const override;
  std::vector<ModelConstant> constants(uint32_t context) const override;
  Graph graph(const GraphOptions& options) const override;
  bool has_e4m3_inputs() const override;
  bool has_tile_order() const override { return !qk_norm && !pools && formats.all_bf16(); }
  std::unique_ptr<const Model> pooling() const override;
  std::unique_ptr<const Model> with_formats(const WeightFormats& wanted) const override;
  std::unique_ptr<const Model> shortened(int layers) const override;
  std::map<std::string, double> parameters() const override;
};

// The architectures that use LlamaConfig.
std::span<const Architecture> llama_architectures();

}  // namespace serval
