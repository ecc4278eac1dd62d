// The streaming limit: how fast a kernel can bring memory into shared memory that does nothing else. What
// programs reach is stated as a share of it.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval {

// In 1e9 bytes a second, on the thread's current GPU: one thread block on each of `sms` SMs, whose one thread
// keeps bulk copies of whole pages in flight. The median of several runs over memory that the cache cannot
// hold; takes some milliseconds. Throws Error(kOutOfMemory) where there is no room for that memory.
double measure_stream_limit(uint32_t sms, cudaStream_t stream);

}  // namespace serval
