// The GPUs for tests of several ranks: one for each rank if there are enough, else two that alternate, or
// one. find_gpus() (engine/device/gpu.h) enables access to each other's memory and returns each rank's number
// of SMs.
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
