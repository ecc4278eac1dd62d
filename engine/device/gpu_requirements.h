// Decides from the CUDA runtime's report whether GPUs can run a program. Plain C++, also in builds without
// CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace serval {

// CUDA versions are encoded as in CUDA: 1000 × major + 10 × minor.
struct GpuReport {
  bool driver_suffices = true;  // for the runtime that the program was built with
  int driver_version = 0;       // the newest that the driver supports; 0: no driver
  int runtime_version = 0;
  int gpus = 0;   // on this machine
  int index = 0;  // of the requested GPU, which the following members describe
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
};

// Throws Error(kRuntime) with one line that says what is missing: a driver, a newer driver, a GPU, or a
// Hopper GPU.
void require_usable(const GpuReport& report);

struct Gpu {
  int index = 0;  // CUDA's index
  std::string name;
  uint32_t sms = 0;
};

// GPUs that will share a model.
struct GpuGroupReport {
  std::vector<Gpu> gpus;  // each rank's; several ranks may share one
  struct Pair {
    int from, to;
  };
  std::vector<Pair> unreachable;  // GPU `from` cannot reach the memory of GPU `to`
  // Additions by `from` to a counter of `to` are not atomic, for example over PCIe: signals could be lost.
  std::vector<Pair> not_atomic;
};

// Each rank's GPU. Ranks that share a GPU divide its SMs. Throws Error(kRuntime) with one line if ranks would
// have different numbers of SMs, or if one cannot access another's memory or signal to it.
std::vector<Gpu> gpus_of_ranks(const GpuGroupReport& report);

// The GPU's name in error lines, with its index if there are several GPUs.
std::string name_among(std::span<const Gpu> gpus, const Gpu& gpu);

// Bytes of GPU memory.
struct GpuMemoryNeed {
  uint64_t weights = 0;
  uint64_t caches = 0;
  uint64_t others = 0;   // activations and constants
  uint64_t staging = 0;  // only while weights are loaded
};

// Throws Error(kOutOfMemory) with one line if the need exceeds the `free` bytes of GPU `name`.
void require_memory(const std::string& name, const GpuMemoryNeed& need, uint64_t free);

}  // namespace serval
