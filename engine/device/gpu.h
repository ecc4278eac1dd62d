// The GPU of this machine that can run programs, or why there is none.
#pragma once

#include <cstdint>
#include <string>

namespace serval {

struct Gpu {
  int index = 0;  // CUDA's
  std::string name;
  uint32_t sms = 0;
};

// Throws Error(kRuntime) with one line that says what is missing: a driver, a newer one, a GPU, a Hopper GPU.
Gpu find_gpu(int index);

// Free bytes of the thread's current GPU.
uint64_t free_gpu_memory();

}  // namespace serval
