// One clock for all SMs of a GPU; of several, one for each (align_ranks.h brings those together).
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

// The lead of an SM's clock at a moment: offset_ns + rate × (moment - epoch).
struct ClockError {
  double offset_ns = 0;
  double rate = 0;

  int64_t corrected(int64_t ns, int64_t epoch_ns) const {
    return ns - static_cast<int64_t>(offset_ns + rate * static_cast<double>(ns - epoch_ns));
  }
};

struct ClockErrors {
  int64_t epoch_ns = 0;
  std::vector<ClockError> of_sm;  // [SMs]
};

// Finds the errors from what the SMs have seen: when the last signal to a counter comes, all that wait for it
// notice at nearly the same time (Execution::last_counter, inputs_ready). For each SM a line is fitted
// to how far it was from the median of such moments, by least squares. Moments that fewer than half of a
// rank's SMs share do not count, nor are SMs corrected that share too few. An SM that always notices late,
// because its way to the counter is longer, is taken for one whose clock is behind: a few hundred
// nanoseconds.
ClockErrors clock_errors(const std::vector<Execution>& executions, uint32_t sms, uint32_t ranks = 1);

// Takes the errors off all times.
void correct_clocks(const ClockErrors& errors, std::vector<Execution>& executions,
                    std::vector<PageSample>& samples);

}  // namespace serval
