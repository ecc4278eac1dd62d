// Llama's decode pass as a graph of instructions: the network, top to bottom.
#pragma once

#include <cstdint>

#include "models/checkpoint/config.h"
#include "scheduler/graph.h"

namespace serval {

struct GraphOptions {
  uint32_t sms = 1;         // an operation is cut into at most this many instances
  uint32_t context = 4096;  // tokens a sequence may hold
  uint32_t kv_blocks = 0;   // blocks of the KV cache in all; 0: enough for kMaxSlots full contexts
};

// Names under which the graph's own tensors stand in the tensor table; weights have their checkpoint names,
// the state's parts those of vm/state.h, and layer i's caches are "cache.i.k" and "cache.i.v".
namespace llama_tensor {
inline constexpr const char* kRope = "rope";
inline constexpr const char* kResidual = "residual";
inline constexpr const char* kWeighted = "weighted";
inline constexpr const char* kSquares = "squares";
inline constexpr const char* kQuery = "query";
inline constexpr const char* kPartial = "partial";
inline constexpr const char* kAttention = "attention";
inline constexpr const char* kMlp = "mlp";
inline constexpr const char* kLogits = "logits";
inline constexpr const char* kUnitSoftmax = "unit_softmax";
}  // namespace llama_tensor

// No weights are touched. Throws Error(kUsage) if the options are out of range: 1 <= context <=
// config.max_position, 1 <= sms <= kMaxSms.
Graph build_llama_graph(const LlamaConfig& config, const GraphOptions& options);

}  // namespace serval
