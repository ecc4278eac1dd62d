// Edges: each names an execution that waited and the one that it waited for. A trace draws them as arrows,
// and the critical path follows them.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

// A wait of an execution, and the execution whose signal ended it: where several signal the counter, the last
// of them.
struct Edge {
  uint32_t from = 0;  // index into Trace::executions
  uint32_t to = 0;
  uint32_t counter = 0;
  int64_t signalled_ns = 0;  // by `from`
  friend bool operator==(const Edge&, const Edge&) = default;
};

// True if the two executions ran on different GPUs.
bool crosses_link(const Trace& trace, const Edge& edge);

// In order of `to`. The first instruction of each SM in a pass also waits for its rank's gate of the pass
// before. Waits whose producers are not in the trace have no edge.
std::vector<Edge> edges_of(const Trace& trace);

}  // namespace serval
