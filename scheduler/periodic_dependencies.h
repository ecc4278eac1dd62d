// Derives the dependencies of a graph with many layers from those of the same graph with a few.
#pragma once

#include "scheduler/dependencies.h"
#include "scheduler/graph.h"

namespace serval {

// Returns the same as derive_dependencies(), in less time if the graph has periods (scheduler/periods.h). It
// derives the dependencies of the graph without most of its periods. If neighbouring periods have the same
// dependencies, it repeats them for the others.
//
// The result is the same for this reason. Each period changes the log of accesses in the same way: its writes
// hide earlier accesses, so an edge comes from the period itself, from the one before, or from before all
// periods. Paths lead backwards only, so the waits of the same two periods decide which of these edges are
// implied. So if two consecutive periods after the first have the same waits, all later ones have them, too.
// Nothing relies on this argument: every compiled program must pass the validator, which does not know about
// periods.
Dependencies derive_periodic_dependencies(const Graph& graph);

}  // namespace serval
