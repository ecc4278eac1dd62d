// A made-up trace whose every time follows from a formula, so that a test knows what a page has to say of it.
#pragma once

#include <cstdint>

#include "profiler/trace/trace.h"

namespace serval {

// A token is `layers` times gate_up and down, each on all SMs, and then advance on SM 0; each waits for all
// of what comes before it. On an SM that is n-th to finish a round, an instruction computes for compute_ns +
// n × 40 ns. So the last SM of every round is on the critical path, and no other.
struct WaveShape {
  uint32_t sms = 4;
  uint32_t ranks = 1;  // that share the SMs; each gate_up pushes 4,096 bytes to the next rank
  uint32_t layers = 2;
  uint32_t tokens = 3;
  int64_t compute_ns = 400;
  uint64_t operations = 0;  // of each instruction; an SM can do 2,000 a nanosecond
  int64_t slow_token = 1;   // the token in which each instruction computes for 200 ns longer
};

// Rounds of a token: two a layer and advance.
constexpr uint32_t rounds_of(const WaveShape& shape) {
  return 2 * shape.layers + 1;
}
// The trace of a launch of `tokens` tokens. `prefix` stands before the names of all ops.
Trace wave_trace(const WaveShape& shape, const std::string& prefix = "");

}  // namespace serval
