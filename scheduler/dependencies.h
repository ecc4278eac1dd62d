// From footprints to counters: which node must have finished before which, with as few counters as possible.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/graph.h"
#include "scheduler/lists.h"

namespace serval {

// A set of nodes that a node waits for together: one counter, incremented once by each of them.
using Join = std::vector<uint32_t>;  // node indices, ascending

struct JoinWait {
  uint32_t join;
  uint32_t operand_mask;  // operands of the waiting node that it guards
  bool previous_pass;     // wait for the join of the pass before (threshold 0), not of this one

  friend bool operator==(const JoinWait&, const JoinWait&) = default;
};

struct Dependencies {
  std::vector<Join> joins;
  Lists<JoinWait> waits;        // of each node
  Lists<uint32_t> signals;  // joins that each node is in, ascending
  uint32_t gate = 0;        // the join after which the next pass begins

  friend bool operator==(const Dependencies&, const Dependencies&) = default;
};

// Derives every read-after-write, write-after-read and write-after-write edge from the bound footprints,
// within a pass and from one pass to the next, and leaves out what other edges imply. Nodes are in a valid
// serial order. scheduler/periodic_dependencies.h has a quicker way for models.
Dependencies derive_dependencies(const Graph& graph);

}  // namespace serval
