// Compares the clocks of several GPUs.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval {

struct GpuClock {
  int64_t ahead_ns;  // of the host's steady clock
  int64_t error_ns;  // half of the round trip of the best measurement
};

// Compares the global clock of the thread's current GPU with the host's: several round trips through pinned
// memory; keeps the shortest. Takes less than a millisecond. Throws as cuda_check.h does.
GpuClock compare_clock(cudaStream_t stream);

}  // namespace serval
