// Whether a GPU can run a program, from what the CUDA runtime reports of it. Plain C++: it is the same in
// builds without CUDA.
#pragma once

#include <cstdint>
#include <string>

namespace serval {

// Versions of CUDA are counted as CUDA does: 1000 × major + 10 × minor.
struct GpuReport {
  bool driver_suffices = true;  // for the runtime that the program was built with
  int driver_version = 0;       // the newest that the driver supports; 0: there is no driver
  int runtime_version = 0;
  int gpus = 0;   // of this machine
  int index = 0;  // of the one that is asked for; what follows is its own
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
};

// Throws Error(kRuntime) with one line that says what is missing: a driver, a newer one, a GPU, a Hopper GPU.
void require_usable(const GpuReport& report);

// Bytes of GPU memory.
struct GpuMemoryNeed {
  uint64_t weights = 0;
  uint64_t caches = 0;
  uint64_t others = 0;   // activations and constants
  uint64_t staging = 0;  // only while weights are loaded
};

// Throws Error(kOutOfMemory) with one line if that is more than the `free` bytes of GPU `name`.
void require_memory(const std::string& name, const GpuMemoryNeed& need, uint64_t free);

}  // namespace serval
