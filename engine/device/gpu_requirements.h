// Whether GPUs can run a program, from what the CUDA runtime reports of them. Plain C++: it is the same in
// builds without CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

struct Gpu {
  int index = 0;  // CUDA's
  std::string name;
  uint32_t sms = 0;
};

// GPUs that are to share a model.
struct GpuGroupReport {
  std::vector<Gpu> gpus;  // each rank's; several ranks may have the same one
  struct Pair {
    int from, to;
  };
  std::vector<Pair> unreachable;  // GPU `from` cannot reach the memory of GPU `to`
  // What `from` adds to a counter of `to` is not atomic there, as over PCIe: signals could get lost.
  std::vector<Pair> not_atomic;
};

// Each rank's GPU: of one that several have, each with a share of its SMs. Throws Error(kRuntime) with one
// line where ranks would differ in their SMs, or one cannot reach another's memory or signal to it.
std::vector<Gpu> gpus_of_ranks(const GpuGroupReport& report);

// What an error line calls a GPU: by its index where there are several.
std::string name_among(std::span<const Gpu> gpus, const Gpu& gpu);

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
