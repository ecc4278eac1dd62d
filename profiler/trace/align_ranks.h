// One clock for all GPUs of a trace, from what they exchange.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/trace/align_clocks.h"
#include "profiler/trace/trace.h"

namespace serval {

// The lead of a rank's clock over that of rank 0.
struct RankClock {
  ClockError error;      // its epoch is RankClocks::epoch_ns
  double within_ns = 0;  // how far `error` may be off at any moment of the trace
};

struct RankClocks {
  int64_t epoch_ns = 0;
  std::vector<std::optional<RankClock>> of_rank;  // [ranks]; none where nothing bounds it on both sides
};

// A signal is not seen before it is given. So what a rank sees of rank 0 bounds its clock on one side, and
// what rank 0 sees of it on the other. Lines (an offset, and a rate of at most 1 %) that lie between all
// these bounds are what the clock may be; the one in the middle is taken, and `within_ns` is how far the
// others are from it at most. Where none lies between them, because clocks do not run evenly, the one that
// misses the bounds least is taken, and `within_ns` is how much. Clocks of a rank's SMs are aligned
// (align_clocks.h).
//
// Waits count that need all increments of their counter. Thread-safe.
RankClocks rank_clocks(const Trace& trace);

// Takes the errors off the times of all ranks. Rank 0's, and so the windows, stay as they are.
void correct_ranks(const RankClocks& clocks, Trace& trace);

// How far apart the clocks may be, in words: "GPU 1: 0.9 us". A rank that nothing bounds is "not known".
std::string describe(const RankClocks& clocks);

// The key of describe() in a recorded trace's metadata.
inline constexpr const char* kClocksMetadata = "clocks_within";

}  // namespace serval
