// Finds the part of a graph that repeats: a model's layers.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/graph.h"

namespace serval {

// Consecutive ranges of equally many nodes.
struct Periods {
  uint32_t first_node, nodes;    // of the first period; in each period
  uint32_t first_stage, stages;  // likewise
  uint32_t count;

  uint32_t begin(uint32_t period) const { return first_node + period * nodes; }
};

// Finds at least `least` periods whose nodes touch the same regions of the same tensors in the same order. In
// the same places, each period may name mutable tensors of its own, which no node outside of it names.
// Weights and constants may differ, because they cause no dependencies. Returns nothing if the graph has no
// such part.
std::optional<Periods> find_periods(const Graph& graph, uint32_t least);

}  // namespace serval
