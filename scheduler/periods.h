// The part of a graph that repeats: a model's layers.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/graph.h"

namespace serval {

// Neighbouring ranges of as many nodes each.
struct Periods {
  uint32_t first_node, nodes;    // of the first; of each
  uint32_t first_stage, stages;  // the same
  uint32_t count;

  uint32_t begin(uint32_t period) const { return first_node + period * nodes; }
};

// At least `least` periods whose nodes touch the same regions of the same tensors, one after the other. Each
// may have mutable tensors of its own, which no other node names, in the same places; weights and constants,
// which order nothing, may differ. None if the graph has no such part.
std::optional<Periods> find_periods(const Graph& graph, uint32_t least);

}  // namespace serval
