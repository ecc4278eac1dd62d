// The streaming limit: the rate at which a kernel that does nothing else can load GPU memory into shared
// memory. The speed of programs is stated as a share of it.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval {

// The rate in 1e9 bytes a second, on the thread's current GPU: one thread block on each of `sms` SMs, where
// one thread keeps bulk copies of whole pages in flight. The median of several runs over memory that is
// larger than the cache; takes some milliseconds. Throws Error(kOutOfMemory) if there is no room for that
// memory.
double measure_stream_limit(uint32_t sms, cudaStream_t stream);

}  // namespace serval
