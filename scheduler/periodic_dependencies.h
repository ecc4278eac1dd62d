// The dependencies of a graph with many layers, from those of the same with a few.
#pragma once

#include "scheduler/dependencies.h"
#include "scheduler/graph.h"

namespace serval {

// What derive_dependencies() returns, in less time where the graph has periods (scheduler/periods.h). They
// are derived for the graph without most of the periods, and repeated where two neighbours are found to be
// alike.
//
// That is the same, since what a period finds repeats. Each does the same to the log of accesses: what it
// writes hides what was there, so an edge comes from the period itself, from the one before, or from before
// all of them. Which of these edges are implied follows from the needs of the same two periods, as ways lead
// back only. So if two periods after the first have the same needs, those that follow have them, too. Nothing
// relies on it: what is compiled has to pass the validator, which knows of no periods.
Dependencies derive_periodic_dependencies(const Graph& graph);

}  // namespace serval
