// What GPUs that share a model waited for each other, and what came while they had other work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/analysis/slices.h"
#include "profiler/trace/trace.h"

namespace serval {

// An execution that needed what another GPU had pushed, seen from the peer's signal that came last.
struct PeerWait {
  uint32_t from = 0;  // index into Trace::executions: what gave that signal
  uint32_t to = 0;
  uint32_t counter = 0;
  int64_t sent_ns = 0;  // the signal, behind the data
  int64_t seen_ns = 0;  // inputs_ready
  // Of the time before seen_ns, what the consumers waited while nothing but the peer's signal was missing.
  int64_t exposed_ns = 0;
  // Of the time from sent_ns to seen_ns, what the consumers spent on other instructions.
  int64_t hidden_ns = 0;
  // Whether the SM was already looking when the signal was given: seen_ns - sent_ns is its way then.
  bool awaited = false;
};

// In order of `to`. Waits count that are for data, not only for room to push into, and need all increments of
// their counter. `slices`: slices_of(trace). Empty
// for one GPU.
std::vector<PeerWait> peer_waits(const Trace& trace, std::span<const Slice> slices);

}  // namespace serval
