#include "tests/llama/reference_llama.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "vm/base/bf16.h"
#include "vm/layout/weight_rows.h"

namespace serval::testing {
namespace {

void add(std::vector<float>& x, const std::vector<float>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Radians per token for pair i, including "llama3" scaling.
float frequency(const LlamaConfig& config, int pair) {
  const double f = std::pow(config.rope_theta, -2.0 * pair / config.head_dim);
  const auto* scaling = std::get_if<Llama3RopeScaling>(&config.rope_scaling);
  if (scaling == nullptr) return static_cast<float>(f);
  const Llama3RopeScaling& s = *scaling;
  const double turns = static_cast<double>(s.original_max_position) * f / (2 * std::numbers::pi);
  if (turns < s.low_freq_factor) return static_cast<float>(f / s.factor);
  if (turns > s.high_freq_factor) return static_cast<float>(f);
  const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return static_cast<float>((1 - smooth) * f / s.factor + smooth * f);
}

double element(const Matrix& w, size_t row, size_t col) {
  const auto cols = static_cast<size_t>(w.cols);
  if (w.bf16 != nullptr) return bf16_to_float(w.bf16[row * cols + col]);
  return value_in_row(w.dtype, w.codes + row * row_bytes_of(w.dtype, cols), cols, col);
}

}  // namespace

float ReferenceLlama::rounded(double x) const {
  const auto value = static_cast<float>(x);
  return rounding_ ? bf16_to_float(float_to_bf16(value)) : value;
}

ReferenceLlama::Vector ReferenceLlama::multiply(const std::string& name, const Vector& x) const {
  const Matrix w = weights_.matrix(name);
  Vector out(static_cast<size_t>(w.rows));
  for (size_t j = 0; j < out.size(); ++j) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += element(w, j, i) * x[i];
    out[j] = static_cast<float>(sum);
  }
  return out;
}

ReferenceLlama::Vector ReferenceLlama::normalise(const std::string& name, const Vector& x) const {
  const Matrix w = weights_.matrix(name);
  double squares = 0;
  for (const float v : x) squares += double{v} * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + config_.rms_norm_eps);
  Vector out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<float>(scale * rounded(double{x[i]} * bf16_to_float(w.bf16[i])));
  }
  return out;
}

void ReferenceLlama::rotate(Vector& heads, size_t position) const {
  const int half = config_.head_dim / 2;
  for (size_t base = 0; base < heads.size(); base += static_cast<size_t>(config_.head_dim)) {
    for (int i = 0; i < half; ++i) {
      const double angle = static_cast<float>(position) * frequency(config_, i);
      float& a = heads[base + static_cast<size_t>(i)];
      float& b = heads[base + static_cast<size_t>(i + half)];
      const double x = a, y = b;
      a = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
      b = static_cast<float>(y * std::cos(angle) + x * std::sin(angle));
    }
  }
}

void ReferenceLlama::normalise_heads(const std::string& name, Vector& heads) const {
  const Matrix w = weights_.matrix(name);
  const auto dim = static_cast<size_t>(config_.head_dim);
  for (size_t base = 0; base < heads.size(); base += dim) {
    double squares = 0;
    for (size_t i = 0; i < dim; ++i) squares += double{heads[base + i]} * heads[base + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(dim) + config_.rms_norm_eps);
    for (size_t i = 0; i < dim; ++i)
      heads[base + i] = static_cast<float>(heads[base + i] * scale * bf16_to_float(w.bf16[i]));
  }
}

ReferenceLlama::Vector ReferenceLlama::attend(const Vector& q, const Cache& cache) const {
  const auto dim = static_cast<size_t>(config_.head_dim);
  const size_t group = static_cast<size_t>(config_.num_heads / config_.num_kv_heads);
  const size_t tokens = cache.k.size();
  Vector out(q.size());
  for (size_t head = 0; head < static_cast<size_t>(config_.num_heads); ++head) {
    const size_t kv = head / group * dim;
    std::vector<double> score(tokens, 0);
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t d = 0; d < dim; ++d) score[t] += double{q[head * dim + d]} * cache.k[t][kv + d];
      score[t] /= std::sqrt(static_cast<double>(dim));
    }
    const double largest = *std::max_element(score.begin(), score.end());
    double total = 0;
    std::vector<double> sum(dim, 0);
    for (size_t t = 0; t < tokens; ++t) {
      const double p = std::exp(score[t] - largest);
      total += p;
      for (size_t d = 0; d < dim; ++d) sum[d] += double{rounded(p)} * cache.v[t][kv + d];
    }
    for (size_t d = 0; d < dim; ++d) out[head * dim + d] = rounded(sum[d] / total);
  }
  return out;
}

void ReferenceLlama::layer(int index, size_t position, Vector& x, Cache& cache) const {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const Vector in = normalise(prefix + "input_layernorm.weight", x);
  Vector q = multiply(prefix + "self_attn.q_proj.weight", in);
  Vector k = multiply(prefix + "self_attn.k_proj.weight", in);
  Vector v = multiply(prefix + "self_attn.v_proj.weight", in);
  if (config_.qkv_bias) {
    for (const auto& [name, rows] : {std::pair{"q", &q}, {"k", &k}, {"v", &v}}) {
      const Matrix bias = weights_.matrix(prefix + "self_attn." + name + "_proj.bias");
      for (size_t i = 0; i < rows->size(); ++i) (*rows)[i] += bf16_to_float(bias.bf16[i]);
    }
  }
  if (config_.qk_norm) {
    normalise_heads(prefix + "self_attn.q_norm.weight", q);
    normalise_heads(prefix + "self_attn.k_norm.weight", k);
  }
  rotate(q, position);
  rotate(k, position);
  for (Vector* rows : {&q, &k, &v}) {
    for (float& value : *rows) value = rounded(value);
  }
  cache.k.push_back(k);
  cache.v.push_back(v);
  add(x, multiply(prefix + "self_attn.o_proj.weight", attend(q, cache)));

  const Vector mid = normalise(prefix + "post_attention_layernorm.weight", x);
  Vector gate = multiply(prefix + "mlp.gate_proj.weight", mid);
  const Vector up = multiply(prefix + "mlp.up_proj.weight", mid);
  for (size_t i = 0; i < gate.size(); ++i)
    gate[i] = rounded(gate[i] / (1 + std::exp(-double{gate[i]})) * up[i]);
  add(x, multiply(prefix + "mlp.down_proj.weight", gate));
}

std::vector<float> ReferenceLlama::logits(std::span<const int32_t> tokens) const {
  const Matrix table = weights_.matrix("model.embed_tokens.weight");
  std::vector<Cache> caches(static_cast<size_t>(config_.num_layers));
  Vector x;
  for (size_t position = 0; position < tokens.size(); ++position) {
    const uint16_t* row = table.bf16 + tokens[position] * table.cols;
    x.assign(static_cast<size_t>(table.cols), 0);
    for (size_t i = 0; i < x.size(); ++i) x[i] = bf16_to_float(row[i]);
    for (int i = 0; i < config_.num_layers; ++i) layer(i, position, x, caches[static_cast<size_t>(i)]);
  }
  const char* head = config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  return multiply(head, normalise("model.norm.weight", x));
}

}  // namespace serval::testing
