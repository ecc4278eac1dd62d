// Llama-like networks: their weights, and their forward pass as a graph of instructions.
#pragma once

#include <vector>

#include "models/llama/config.h"
#include "scheduler/graph.h"

namespace serval {

// Names of the graph's tensors in the tensor table, besides model_tensor::kLogits. Weights have their
// checkpoint names, parts of the state have the names of vm/state/names.h, and the caches of layer i are
// "cache.i.k" and "cache.i.v".
namespace llama_tensor {
inline constexpr const char* kRope = "rope";
inline constexpr const char* kResidual = "residual";
inline constexpr const char* kWeighted = "weighted";
inline constexpr const char* kHeadInput = "weighted.lm_head";  // if the LM head's input has a type of its own
inline constexpr const char* kCodes = ".e4m3";                 // suffix: a product's input in e4m3
inline constexpr const char* kSquares = "squares";
inline constexpr const char* kProjected = "projected";
inline constexpr const char* kQuery = "query";
inline constexpr const char* kPartial = "partial";
inline constexpr const char* kExchange = "exchange";  // partial sums that ranks push to each other
inline constexpr const char* kAttention = "attention";
inline constexpr const char* kMlp = "mlp";
inline constexpr const char* kParts = "parts";  // .i: sums over part i of a matrix's columns
inline constexpr const char* kSavedLogits = "saved_logits";
inline constexpr const char* kUnitSoftmax = "unit_softmax";
inline constexpr const char* kEmbedding = "model.embed_tokens.weight";
inline constexpr const char* kFinalNorm = "model.norm.weight";
inline constexpr const char* kLmHead = "lm_head.weight";
}  // namespace llama_tensor

// Under Hugging Face's names; names of a layer begin with "model.layers.{layer}.". A tied LM head is not
// listed: it is the embedding.
std::vector<WeightSpec> llama_weights(const LlamaConfig& config);

// As Model::graph().
Graph build_llama_graph(const LlamaConfig& config, const GraphOptions& options);

}  // namespace serval
