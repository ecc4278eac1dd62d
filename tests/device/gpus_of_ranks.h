// The GPUs that tests of several ranks run on: one for each where there are so many, else two in turn, or
// one. find_gpus() (engine/device/gpu.h) lets them reach each other and says how many SMs each rank has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "vm/device/cuda_check.h"

namespace serval::testing {

inline std::vector<int> gpus_of_ranks(uint32_t ranks) {
  int count = 0;
  SERVAL_CUDA_CHECK(cudaGetDeviceCount(&count));
  const int in_turn = count >= static_cast<int>(ranks) ? static_cast<int>(ranks) : std::min(count, 2);
  std::vector<int> gpus;
  for (int rank = 0; rank < static_cast<int>(ranks); ++rank) gpus.push_back(rank % in_turn);
  return gpus;
}

}  // namespace serval::testing
