// The critical path: the chain of events that a token's time consists of. Only a shorter path makes the token
// faster.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/analysis/edges.h"
#include "profiler/analysis/slices.h"
#include "profiler/trace/trace.h"

namespace serval {

// A stretch of the path, on which `execution` was in this state, and which the next step waited for.
// kWait: from the producer's signal until the waiting SM has seen it. kIdle: its turn on its SM had not come.
struct PathStep {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t execution = 0;
  uint32_t counter = kNoCounter;  // of kWait
  SmRole role = SmRole::kController;
  SliceState state = SliceState::kIdle;
  bool over_link = false;  // of kWait: the producer is on another GPU
  friend bool operator==(const PathStep&, const PathStep&) = default;
};

// Walks backwards from the signal that opens the window's gate: of all events that an event waited for, the
// latest is next on the path. Steps follow each other without gaps and cover the window exactly. Empty if the
// trace has no such signal.
std::vector<PathStep> critical_path(const Trace& trace, std::span<const Edge> edges,
                                    const PassWindow& window);

// The executions along the path, each once, in order.
std::vector<uint32_t> executions_of(std::span<const PathStep> path);

}  // namespace serval
