// The time that GPUs which share a model waited for each other, and the transfers that other work hid.
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
  // The part of the time before seen_ns in which the consumers waited and only the peer's signal was missing.
  int64_t exposed_ns = 0;
  // The part of the time from sent_ns to seen_ns that the consumers spent on other instructions.
  int64_t hidden_ns = 0;
  // True if the SM was already waiting when the signal was given; seen_ns - sent_ns is then the transit.
  bool awaited = false;
};

// In order of `to`. Waits count that are for data, not only for room to push into, and need all increments of
// their counter. `slices`: slices_of(trace). Empty
// for one GPU.
std::vector<PeerWait> peer_waits(const Trace& trace, std::span<const Slice> slices);

}  // namespace serval
