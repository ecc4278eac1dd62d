// The GPUs of this machine that can run programs, or why there are none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/device/gpu_requirements.h"

namespace serval {

// Throws Error(kRuntime) with one line that says what is missing: a driver, a newer one, a GPU, a Hopper GPU.
Gpu find_gpu(int index);

// Those that share a model, one for each index; of one that is named several times, each has a share of the
// SMs. Throws as find_gpu(), and Error(kRuntime) where they differ in their SMs or one cannot reach the
// memory of another; makes it reach it otherwise.
std::vector<Gpu> find_gpus(std::span<const int> indices);

// Free bytes of the thread's current GPU.
uint64_t free_gpu_memory();
// That each of these GPUs has at least: of one that is named several times, its share.
uint64_t free_gpu_memory(std::span<const Gpu> gpus);

}  // namespace serval
