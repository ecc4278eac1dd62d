// How the clocks of several GPUs stand to each other.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval {

struct GpuClock {
  int64_t ahead_ns;  // of the host's steady clock
  int64_t error_ns;  // half of the round trip that it was taken from
};

// Asks the thread's current GPU for the time of the clock that all its SMs share, several times, through
// pinned memory, and keeps the answer that came soonest. Takes less than a millisecond. Throws as
// cuda_check.h.
GpuClock compare_clock(cudaStream_t stream);

}  // namespace serval
