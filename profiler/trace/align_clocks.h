// Aligns the clocks of all SMs of a GPU. With several GPUs, each keeps a clock of its own until align_ranks.h
// aligns those.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

// How far an SM's clock is ahead at a moment: offset_ns + rate × (moment - epoch).
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

// Finds the errors from shared moments: all SMs that wait for a counter notice its last signal at nearly the
// same time (Execution::last_counter, inputs_ready). For each SM, a line is fitted by least squares to its
// distance from the median of each such moment. Moments that fewer than half of a rank's SMs share are
// ignored, and SMs with too few moments are not corrected. An SM that always notices late because it is
// further away from the counter is mistaken for one with a late clock: a few hundred nanoseconds.
ClockErrors clock_errors(const std::vector<Execution>& executions, uint32_t sms, uint32_t ranks = 1);

// Subtracts the errors from all times.
void correct_clocks(const ClockErrors& errors, std::vector<Execution>& executions,
                    std::vector<PageSample>& samples);

}  // namespace serval
