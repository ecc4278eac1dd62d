#include "engine/torch/plugin/graph_replay.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace serval::torch_plugin {
namespace {

constexpr int kWarmUp = 3;
constexpr double kMicrosecondsPerMillisecond = 1000;

// A decoding step of sequences with `context` tokens. All its inputs and outputs have fixed addresses, as a
// CUDA graph requires.
class DecodeStep {
 public:
  DecodeStep(const EagerLlama& model, const ServalOracleReplay& replay);
  // Replaces each sequence's token by the likeliest next one.
  void run();

 private:
  struct Cache {
    at::Tensor keys, values;  // [batch, KV heads, context + 1, head_dim]
  };
  // Normalises the last dimension; the identity without a weight.
  at::Tensor normalise(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor heads(const at::Tensor& x, const EagerLlama::Projection& project, int64_t count) const;
  at::Tensor rotate(const at::Tensor& x) const;
  at::Tensor attend(const EagerLlama::Layer& layer, const Cache& cache, const at::Tensor& x) const;
  at::Tensor feed_forward(const EagerLlama::Layer& layer, const at::Tensor& x) const;

  const EagerLlama& model_;
  const int64_t batch_, position_;
  at::Tensor tokens_;         // [batch]
  at::Tensor cosine_, sine_;  // [head_dim]
  std::vector<Cache> caches_;
};

DecodeStep::DecodeStep(const EagerLlama& model, const ServalOracleReplay& replay)
    : model_(model), batch_(replay.batch), position_(replay.context) {
  const ServalOracleConfig& c = model.config();
  const at::TensorOptions options = model.embedding().options();
  tokens_ = at::zeros({batch_}, options.dtype(at::kLong));
  const at::Tensor angles = (model.frequencies() * static_cast<double>(position_)).repeat({2});
  cosine_ = (angles.cos() * c.rope_attention_factor).to(options);
  sine_ = (angles.sin() * c.rope_attention_factor).to(options);
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const at::Tensor keys = at::rand({batch_, c.num_kv_heads, position_ + 1, c.head_dim}, options);
    caches_.push_back({keys, at::rand_like(keys)});
  }
}

at::Tensor DecodeStep::normalise(const at::Tensor& x, const at::Tensor& weight) const {
  if (!weight.defined()) return x;
  return at::rms_norm(x, weight.sizes(), weight, model_.config().rms_norm_eps);
}

at::Tensor DecodeStep::heads(const at::Tensor& x, const EagerLlama::Projection& project,
                             int64_t count) const {
  return project(x).view({batch_, count, model_.config().head_dim});
}

// Rotates channel i together with channel i + head_dim / 2.
at::Tensor DecodeStep::rotate(const at::Tensor& x) const {
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return x * cosine_ + at::cat({-halves[1], halves[0]}, -1) * sine_;
}

at::Tensor DecodeStep::attend(const EagerLlama::Layer& layer, const Cache& cache, const at::Tensor& x) const {
  const ServalOracleConfig& c = model_.config();
  const auto turned = [&](const EagerLlama::Projection& project, int64_t count, const at::Tensor& norm) {
    return rotate(normalise(heads(x, project, count), norm));
  };
  const at::Tensor query = turned(layer.query, c.num_heads, layer.query_norm).unsqueeze(2);
  cache.keys.select(2, position_).copy_(turned(layer.key, c.num_kv_heads, layer.key_norm));
  cache.values.select(2, position_).copy_(heads(x, layer.value, c.num_kv_heads));
  const at::Tensor mixed =
      at::scaled_dot_product_attention(query, cache.keys, cache.values, /*attn_mask=*/{}, /*dropout_p=*/0,
                                       /*is_causal=*/false, /*scale=*/{}, /*enable_gqa=*/true);
  return layer.output(mixed.reshape({batch_, -1}));
}

at::Tensor DecodeStep::feed_forward(const EagerLlama::Layer& layer, const at::Tensor& x) const {
  return layer.down(at::silu(layer.gate(x)) * layer.up(x));
}

void DecodeStep::run() {
  at::Tensor residual = at::embedding(model_.embedding(), tokens_);
  for (size_t i = 0; i < caches_.size(); ++i) {
    const EagerLlama::Layer& layer = model_.layers()[i];
    residual = residual + attend(layer, caches_[i], normalise(residual, layer.input_norm));
    residual = residual + feed_forward(layer, normalise(residual, layer.post_attention_norm));
  }
  const at::Tensor logits = at::linear(normalise(residual, model_.final_norm()), model_.lm_head());
  tokens_.copy_(logits.argmax(-1));
}

}  // namespace

double time_replay(const EagerLlama& model, const ServalOracleReplay& replay) {
  const c10::cuda::CUDAStreamGuard own_stream(c10::cuda::getStreamFromPool());
  DecodeStep step(model, replay);
  for (int i = 0; i < kWarmUp; ++i) step.run();
  c10::cuda::getCurrentCUDAStream().synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  step.run();
  graph.capture_end();

  for (int i = 0; i < kWarmUp; ++i) graph.replay();
  at::cuda::CUDAEvent began(cudaEventDefault), ended(cudaEventDefault);
  began.record();
  for (int64_t i = 0; i < replay.replays; ++i) graph.replay();
  ended.record();
  ended.synchronize();
  return began.elapsed_time(ended) * kMicrosecondsPerMillisecond / static_cast<double>(replay.replays);
}

}  // namespace serval::torch_plugin
