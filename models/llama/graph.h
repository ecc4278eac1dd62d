// The network of Llama and its kind: which weights it has, and its pass as a graph of instructions.
#pragma once

#include <vector>

#include "models/llama/config.h"
#include "scheduler/graph.h"

namespace serval {

// Names under which the graph's own tensors stand in the tensor table, beside model_tensor::kLogits; weights
// have their checkpoint names, the state's parts those of vm/state/names.h, and layer i's caches are
// "cache.i.k" and "cache.i.v".
namespace llama_tensor {
inline constexpr const char* kRope = "rope";
inline constexpr const char* kResidual = "residual";
inline constexpr const char* kWeighted = "weighted";
inline constexpr const char* kSquares = "squares";
inline constexpr const char* kProjected = "projected";
inline constexpr const char* kQuery = "query";
inline constexpr const char* kPartial = "partial";
inline constexpr const char* kExchange = "exchange";  // partial sums, of several ranks
inline constexpr const char* kAttention = "attention";
inline constexpr const char* kMlp = "mlp";
inline constexpr const char* kParts = "parts";  // .i: sums over part i of a matrix's columns
inline constexpr const char* kSavedLogits = "saved_logits";
inline constexpr const char* kUnitSoftmax = "unit_softmax";
inline constexpr const char* kEmbedding = "model.embed_tokens.weight";
inline constexpr const char* kFinalNorm = "model.norm.weight";
inline constexpr const char* kLmHead = "lm_head.weight";
}  // namespace llama_tensor

// Hugging Face's names. A layer's begin with "model.layers.{layer}."; a tied LM head is the embedding.
std::vector<WeightSpec> llama_weights(const LlamaConfig& config);

// As Model::graph().
Graph build_llama_graph(const LlamaConfig& config, const GraphOptions& options);

}  // namespace serval
