// Waits for other GPUs that share the model, and how much of them was hidden by other work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/analysis/slices.h"
#include "profiler/trace/trace.h"

namespace serval {

// An execution that needed data from other GPUs, and the last of their signals for it.
struct PeerWait {
  uint32_t from = 0;  // index into Trace::executions: it gave that signal
  uint32_t to = 0;
  uint32_t counter = 0;
  int64_t sent_ns = 0;  // when the signal was given, after the data
  int64_t seen_ns = 0;  // inputs_ready
  // Time before seen_ns in which the consumers waited and only the peer's signal was missing.
  int64_t exposed_ns = 0;
  // Time from sent_ns to seen_ns in which the consumers worked on other instructions.
  int64_t hidden_ns = 0;
  // The SM was waiting already when the signal was given, so seen_ns - sent_ns is the signal's transit time.
  bool awaited = false;
};

// In order of `to`. Counts the waits for data (not those for room to push into) that need all increments of
// their counter. `slices`: slices_of(trace). Empty for one GPU.
std::vector<PeerWait> peer_waits(const Trace& trace, std::span<const Slice> slices);

}  // namespace serval
