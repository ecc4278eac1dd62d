// Compares two traces: what became slower and what faster.
#pragma once

#include <string>
#include <vector>

#include "profiler/report/report.h"

namespace serval {

// One figure of both traces, in ns per token.
struct Change {
  std::string op;     // "" for the token
  std::string state;  // wait, load, compute, store, or a state of the critical path
  double before_ns = 0;
  double after_ns = 0;
  double difference_ns() const { return after_ns - before_ns; }
};

struct TraceDiff {
  Change token;             // median token times
  std::vector<Change> ops;  // on an average SM, largest difference first; without those that are zero in both
  std::vector<Change> path;  // of the critical path, by op and state, likewise ordered
  double slower() const { return token.before_ns > 0 ? token.difference_ns() / token.before_ns : 0; }
};

TraceDiff diff_of(const Report& before, const Report& after);
std::string to_text(const TraceDiff& diff);
std::string to_json(const TraceDiff& diff);

}  // namespace serval
