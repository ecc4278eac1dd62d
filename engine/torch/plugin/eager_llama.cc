#include "engine/torch/plugin/eager_llama.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "vm/layout/weight_rows.h"

namespace serval::torch_plugin {
namespace {

constexpr double kPi = 3.14159265358979323846;

at::TensorOptions options_of(const ServalOracleConfig& config) {
  return at::TensorOptions()
      .dtype(config.dtype == SERVAL_ORACLE_BF16 ? at::kBFloat16 : at::kFloat)
      .device(config.device == SERVAL_ORACLE_CUDA ? at::kCUDA : at::kCPU);
}

// Keeps the frequencies that turn often within the original context, divides those that hardly turn by
// `factor`, and blends linearly in between.
at::Tensor stretched_as_llama3(const ServalOracleConfig& c, const at::Tensor& frequency) {
  const at::Tensor turns = frequency * (static_cast<double>(c.rope_original_max_position) / (2 * kPi));
  const double span = c.rope_high_freq_factor - c.rope_low_freq_factor;
  const at::Tensor kept = ((turns - c.rope_low_freq_factor) / span).clamp(0.0, 1.0);
  return frequency * (kept + (1 - kept) / c.rope_factor);
}

// YaRN blends over the numbers of the pairs, between the two that turn beta_fast and beta_slow times.
at::Tensor stretched_as_yarn(const ServalOracleConfig& c, const at::Tensor& frequency) {
  const auto pair_of = [&](double turns) {
    const double positions = static_cast<double>(c.rope_original_max_position) / (2 * kPi * turns);
    return static_cast<double>(c.head_dim) / 2 * std::log(positions) / std::log(c.rope_theta);
  };
  double first = pair_of(c.rope_beta_fast), last = pair_of(c.rope_beta_slow);
  if (c.rope_truncate != 0) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(c.head_dim - 1));
  constexpr double kShortestRamp = 0.001;
  const double span = first == last ? kShortestRamp : last - first;
  const at::Tensor pair = at::arange(0, c.head_dim / 2, at::kDouble);
  const at::Tensor stretched = ((pair - first) / span).clamp(0.0, 1.0);
  return frequency * (1 - stretched + stretched / c.rope_factor);
}

// Radians a position for each pair of channels.
at::Tensor inverse_frequencies(const ServalOracleConfig& c) {
  const at::Tensor channel = at::arange(0, c.head_dim, 2, at::kDouble);
  at::Tensor frequency = at::exp(channel * (-std::log(c.rope_theta) / static_cast<double>(c.head_dim)));
  if (c.rope_divisors != nullptr)
    frequency /= at::from_blob(const_cast<double*>(c.rope_divisors), {c.head_dim / 2}, at::kDouble);
  if (c.rope_type == SERVAL_ORACLE_ROPE_LINEAR) frequency = frequency / c.rope_factor;
  if (c.rope_type == SERVAL_ORACLE_ROPE_LLAMA3) frequency = stretched_as_llama3(c, frequency);
  if (c.rope_type == SERVAL_ORACLE_ROPE_YARN) frequency = stretched_as_yarn(c, frequency);
  return frequency.to(at::kFloat);
}

// Normalises in fp32; the result is rounded before the weight multiplies it.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + epsilon);
  return weight * (wide * scale).to(x.scalar_type());
}

// rms_norm(), or the identity if there is no weight.
at::Tensor norm_if_any(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return weight.defined() ? rms_norm(x, weight, epsilon) : x;
}

// x [heads, n, head_dim]: rotates channel i together with channel i + head_dim / 2.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return x * cosine + at::cat({-halves[1], halves[0]}, -1) * sine;
}

// The values of a matrix in codes, in fp32.
at::Tensor dequantised(const ServalOracleWeight& weight) {
  const auto width = static_cast<uint64_t>(weight.cols);
  const auto dtype = static_cast<DType>(weight.dtype);
  at::Tensor values = at::empty({weight.rows, weight.cols}, at::kFloat);
  auto* to = values.data_ptr<float>();
  for (int64_t r = 0; r < weight.rows; ++r) {
    const uint8_t* row = weight.codes + static_cast<uint64_t>(r) * row_bytes_of(dtype, width);
    for (uint64_t c = 0; c < width; ++c) *to++ = value_in_row(dtype, row, width, c);
  }
  return values;
}

at::Tensor tensor_of(const ServalOracleWeight& weight) {
  if (weight.codes != nullptr) return dequantised(weight);
  return at::from_blob(const_cast<uint16_t*>(weight.bf16), {weight.rows, weight.cols}, at::kBFloat16);
}

}  // namespace

// Finds weights by name, checks their shapes, and copies them to the device in the requested type.
class EagerLlama::Loader {
 public:
  Loader(const WeightTable& weights, const at::TensorOptions& options)
      : weights_(weights), options_(options) {}

  at::Tensor matrix(const std::string& name, int64_t rows, int64_t cols) {
    const auto found = weights_.find(name);
    if (found == weights_.end()) throw std::invalid_argument("weight " + name + ": missing");
    const ServalOracleWeight& weight = found->second;
    if (weight.rows != rows || weight.cols != cols) {
      throw std::invalid_argument("weight " + name + ": " + shape(weight.rows, weight.cols) +
                                  "; needed: " + shape(rows, cols));
    }
    // Tied matrices share memory, and so a tensor.
    at::Tensor& tensor =
        loaded_[weight.codes != nullptr ? static_cast<const void*>(weight.codes) : weight.bf16];
    if (!tensor.defined()) tensor = tensor_of(weight).to(options_);
    return tensor;
  }
  at::Tensor vector(const std::string& name, int64_t size) { return matrix(name, 1, size).view({size}); }
  at::Tensor vector_if_any(const std::string& name, int64_t size) {
    return weights_.contains(name) ? vector(name, size) : at::Tensor();
  }
  Projection projection(const std::string& name, int64_t out, int64_t in) {
    return {matrix(name + ".weight", out, in), vector_if_any(name + ".bias", out)};
  }

 private:
  static std::string shape(int64_t rows, int64_t cols) {
    return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]";
  }

  const WeightTable& weights_;
  const at::TensorOptions options_;
  std::map<const void*, at::Tensor> loaded_;
};

EagerLlama::EagerLlama(const ServalOracleConfig& c, const WeightTable& weights)
    : config_(c),
      options_(options_of(c)),
      inverse_frequencies_(inverse_frequencies(c).to(options_.device())) {
  Loader loader(weights, options_);
  const int64_t query_size = c.num_heads * c.head_dim, key_size = c.num_kv_heads * c.head_dim;
  embedding_ = loader.matrix("model.embed_tokens.weight", c.vocab_size, c.hidden_size);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    Layer layer;
    layer.input_norm = loader.vector(prefix + "input_layernorm.weight", c.hidden_size);
    layer.query = loader.projection(prefix + "self_attn.q_proj", query_size, c.hidden_size);
    layer.key = loader.projection(prefix + "self_attn.k_proj", key_size, c.hidden_size);
    layer.value = loader.projection(prefix + "self_attn.v_proj", key_size, c.hidden_size);
    layer.query_norm = loader.vector_if_any(prefix + "self_attn.q_norm.weight", c.head_dim);
    layer.key_norm = loader.vector_if_any(prefix + "self_attn.k_norm.weight", c.head_dim);
    layer.output = loader.projection(prefix + "self_attn.o_proj", c.hidden_size, query_size);
    layer.post_attention_norm = loader.vector(prefix + "post_attention_layernorm.weight", c.hidden_size);
    layer.gate = loader.projection(prefix + "mlp.gate_proj", c.intermediate_size, c.hidden_size);
    layer.up = loader.projection(prefix + "mlp.up_proj", c.intermediate_size, c.hidden_size);
    layer.down = loader.projection(prefix + "mlp.down_proj", c.hidden_size, c.intermediate_size);
    layer.cached_keys = at::empty({c.cache_cells, c.num_kv_heads, c.head_dim}, options_);
    layer.cached_values = at::empty_like(layer.cached_keys);
    layers_.push_back(std::move(layer));
  }
  final_norm_ = loader.vector("model.norm.weight", c.hidden_size);
  lm_head_ = loader.matrix("lm_head.weight", c.vocab_size, c.hidden_size);
}

EagerLlama::Context EagerLlama::prepare(const ServalOracleTokens& input) const {
  const int64_t end = input.first_position + input.count;
  const at::Device device = options_.device();
  Context context;
  const at::Tensor positions = at::arange(input.first_position, end, at::kFloat).to(device);
  const at::Tensor angles = at::outer(positions, inverse_frequencies_).repeat({1, 2});
  context.cosine = (angles.cos() * config_.rope_attention_factor).to(options_);
  context.sine = (angles.sin() * config_.rope_attention_factor).to(options_);
  const at::Tensor seen = at::arange(end, at::kFloat).to(device);
  context.masked = seen.unsqueeze(0) > positions.unsqueeze(1);
  context.cells = at::from_blob(const_cast<int64_t*>(input.cells), {end}, at::kLong).to(device);
  context.own_cells = context.cells.slice(0, input.first_position);
  return context;
}

at::Tensor EagerLlama::split_heads(const at::Tensor& x, int64_t heads) const {
  return x.view({-1, heads, config_.head_dim}).transpose(0, 1);
}

at::Tensor EagerLlama::attend(Layer& layer, const at::Tensor& x, const Context& context) const {
  const auto turned = [&](const at::Tensor& heads, const at::Tensor& norm) {
    return rotate(norm_if_any(heads, norm, config_.rms_norm_eps), context.cosine, context.sine);
  };
  const at::Tensor query = turned(split_heads(layer.query(x), config_.num_heads), layer.query_norm);
  const at::Tensor key = turned(split_heads(layer.key(x), config_.num_kv_heads), layer.key_norm);
  const at::Tensor value = split_heads(layer.value(x), config_.num_kv_heads);
  layer.cached_keys.index_copy_(0, context.own_cells, key.transpose(0, 1));
  layer.cached_values.index_copy_(0, context.own_cells, value.transpose(0, 1));

  const int64_t group = config_.num_heads / config_.num_kv_heads;
  const auto all_heads = [&](const at::Tensor& cache) {
    return cache.index_select(0, context.cells).transpose(0, 1).repeat_interleave(group, 0);
  };
  const at::Tensor keys = all_heads(layer.cached_keys), values = all_heads(layer.cached_values);
  const double scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
  const at::Tensor scores =
      (at::matmul(query, keys.transpose(1, 2)) * scale).masked_fill(context.masked, -INFINITY);
  const at::Tensor weights = at::softmax(scores, -1, at::kFloat).to(options_);
  const at::Tensor mixed = at::matmul(weights, values).transpose(0, 1);
  return layer.output(mixed.reshape({x.size(0), -1}));
}

at::Tensor EagerLlama::feed_forward(const Layer& layer, const at::Tensor& x) const {
  return layer.down(at::silu(layer.gate(x)) * layer.up(x));
}

at::Tensor EagerLlama::forward(const ServalOracleTokens& input) {
  const double epsilon = config_.rms_norm_eps;
  const Context context = prepare(input);
  const at::Tensor ids = at::from_blob(const_cast<int32_t*>(input.tokens), {input.count}, at::kInt)
                             .to(options_.device(), at::kLong);
  at::Tensor residual = at::embedding(embedding_, ids);
  for (Layer& layer : layers_) {
    residual = residual + attend(layer, rms_norm(residual, layer.input_norm, epsilon), context);
    residual = residual + feed_forward(layer, rms_norm(residual, layer.post_attention_norm, epsilon));
  }
  const at::Tensor last = residual.slice(0, input.count - input.num_logits);
  return at::linear(rms_norm(last, final_norm_, epsilon), lm_head_).to(at::kCPU, at::kFloat);
}

}  // namespace serval::torch_plugin
