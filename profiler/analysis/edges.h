// Which execution waited for which: what a trace draws as arrows, and what a critical path walks along.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

// A wait of an execution, and the execution whose signal ended it. Of the producers of a join only the last
// counts: the others were earlier.
struct Edge {
  uint32_t from = 0;  // index into Trace::executions
  uint32_t to = 0;
  uint32_t counter = 0;
  int64_t signalled_ns = 0;  // by `from`
  friend bool operator==(const Edge&, const Edge&) = default;
};

// True if the signal went from one GPU to another.
bool crosses_link(const Trace& trace, const Edge& edge);

// In order of `to`; its rank's gate of the pass before counts as a wait of the first instruction of each SM.
// Waits whose producers are not in the trace have none.
std::vector<Edge> edges_of(const Trace& trace);

}  // namespace serval
