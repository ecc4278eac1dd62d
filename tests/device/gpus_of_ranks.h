// The GPUs that tests of several ranks run on: one for each where there are so many, else two in turn, or
// one. What else such tests need to know of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "vm/device/cuda_check.h"
#include "vm/device/cuda_resources.h"

namespace serval::testing {

inline std::vector<int> gpus_of_ranks(uint32_t ranks) {
  int count = 0;
  SERVAL_CUDA_CHECK(cudaGetDeviceCount(&count));
  const int in_turn = count >= static_cast<int>(ranks) ? static_cast<int>(ranks) : std::min(count, 2);
  std::vector<int> gpus;
  for (int rank = 0; rank < static_cast<int>(ranks); ++rank) gpus.push_back(rank % in_turn);
  return gpus;
}

// SMs that each rank has for itself.
inline uint32_t sms_of_rank(const std::vector<int>& gpus) {
  int sms = 0, most = 1;
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, gpus.front()));
  for (const int gpu : gpus) most = std::max(most, static_cast<int>(std::ranges::count(gpus, gpu)));
  return static_cast<uint32_t>(sms / most);
}

// Lets kernels of each reach the memory of all. Leaves another GPU as the thread's current one.
inline void reach_each_other(const std::vector<int>& gpus) {
  for (const int from : gpus) {
    use_gpu(from);
    for (const int to : gpus) {
      if (to == from) continue;
      (void)cudaDeviceEnablePeerAccess(to, 0);  // an error if it has been enabled before
      (void)cudaGetLastError();
    }
  }
}

}  // namespace serval::testing
