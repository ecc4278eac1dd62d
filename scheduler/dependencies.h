// Derives from footprints which nodes must have finished before which, with as few counters as possible.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/graph.h"
#include "scheduler/lists.h"

namespace serval {

// Nodes that another node waits for together. A join becomes a counter that each of its nodes increments
// once.
using Join = std::vector<uint32_t>;  // node indices, ascending

// A node's wait for a join; compile() turns it into a Wait of the program.
struct JoinWait {
  uint32_t join;          // index into Dependencies::joins
  uint32_t operand_mask;  // operands of the waiting node that the wait guards
  bool previous_pass;     // waits for the join of the previous pass (threshold 0), not of this one

  friend bool operator==(const JoinWait&, const JoinWait&) = default;
};

struct Dependencies {
  std::vector<Join> joins;
  Lists<JoinWait> waits;    // of each node
  Lists<uint32_t> signals;  // of each node: the joins that it belongs to, ascending
  uint32_t gate = 0;        // the join that ends the pass

  friend bool operator==(const Dependencies&, const Dependencies&) = default;
};

// Derives every read-after-write, write-after-read and write-after-write edge from the bound footprints,
// within a pass and from one pass to the next, and leaves out edges that others imply. Nodes are in a valid
// serial order. For models, derive_periodic_dependencies() is faster.
Dependencies derive_dependencies(const Graph& graph);

}  // namespace serval
