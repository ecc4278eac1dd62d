// Aligns the clocks of a trace's GPUs, by the signals that they exchange.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/trace/align_clocks.h"
#include "profiler/trace/trace.h"

namespace serval {

// How far a rank's clock is ahead of rank 0's.
struct RankClock {
  ClockError error;      // its epoch is RankClocks::epoch_ns
  double within_ns = 0;  // how far `error` may be off at any moment of the trace
};

struct RankClocks {
  int64_t epoch_ns = 0;
  std::vector<std::optional<RankClock>>
      of_rank;  // [ranks] none if the clock has no bound on one of its sides
};

// A signal is never seen before it is given. So what a rank sees of rank 0 bounds its clock on one side, and
// what rank 0 sees of that rank bounds it on the other. The clock's error is a line (an offset, and a rate of
// at most 1 %) between all these bounds: the one in the middle is taken, and `within_ns` is how far the
// others are from it at most. If no line fits, because clocks do not run evenly, the one that misses the
// bounds least is taken, and `within_ns` is by how much it misses. The clocks of each rank's SMs must be
// aligned already (align_clocks.h).
//
// Only waits that need all increments of their counter count. Thread-safe.
RankClocks rank_clocks(const Trace& trace);

// Subtracts the errors from the times of all ranks. Rank 0's times, and so the windows, do not change.
void correct_ranks(const RankClocks& clocks, Trace& trace);

// How far apart the clocks may be, as text: "GPU 1: 0.9 us". Without bounds a rank's is "not known".
std::string describe(const RankClocks& clocks);

// The member of a recorded trace's metadata that holds describe().
inline constexpr const char* kClocksMetadata = "clocks_within";

}  // namespace serval
