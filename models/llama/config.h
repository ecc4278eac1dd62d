// A model of Llama's kind, as its config.json describes it.
//
// Field names and defaults follow transformers' LlamaConfig. models/llama/rope_config.h reads what it says of
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

// The "linear" rope_type: all wavelengths are stretched by `factor`.
struct LinearRopeScaling {
  double factor;
  bool operator==(const LinearRopeScaling&) const = default;
};

// The "llama3" rope_type: long wavelengths are stretched by `factor`, short ones kept, those between
// interpolated.
struct Llama3RopeScaling {
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  int64_t original_max_position;  // tokens
  bool operator==(const Llama3RopeScaling&) const = default;
};

// The "yarn" rope_type (arxiv.org/abs/2309.00071): pairs that turn more than `beta_fast` times within the
// original context keep their wavelength, those that turn less than `beta_slow` times are stretched by
// `factor`, and a linear ramp over the pairs' numbers lies between. `truncate` rounds its ends to whole
// pairs.
struct YarnRopeScaling {
  double factor;
  double beta_fast;
  double beta_slow;
  bool truncate;
  int64_t original_max_position;  // tokens
  bool operator==(const YarnRopeScaling&) const = default;
};

// How RoPE's wavelengths differ from those that rope_theta gives; monostate: not at all.
using RopeScaling = std::variant<std::monostate, LinearRopeScaling, Llama3RopeScaling, YarnRopeScaling>;

struct LlamaConfig final : Model {
  double rms_norm_eps = 0;
  double rope_theta = 0;
  RopeScaling rope_scaling;
  double rope_attention_factor = 1;  // multiplies cosines and sines, and so scores by its square
  // GGUF's rope_freqs: what divides each pair's frequency before it is scaled; empty: nothing does.
  std::vector<float> rope_divisors;
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
