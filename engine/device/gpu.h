// Finds GPUs that can run programs, or reports why there are none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/device/gpu_requirements.h"

namespace serval {

// Throws Error(kRuntime) with one line that says what is missing: a driver, a newer driver, a GPU, or a
// Hopper GPU.
Gpu find_gpu(int index);

// The GPUs that share a model, one for each index. If an index occurs several times, its SMs are divided
// among the ranks. Enables access to each other's memory. Throws as find_gpu(), and Error(kRuntime) if they
// have different numbers of SMs or one cannot access the memory of another.
std::vector<Gpu> find_gpus(std::span<const int> indices);

// Free bytes of the thread's current GPU.
uint64_t free_gpu_memory();
// The minimum for the ranks; the memory of a GPU that several ranks share is divided among them.
uint64_t free_gpu_memory(std::span<const Gpu> gpus);

}  // namespace serval
