// The GPUs that tests of several ranks run on: two in turn where there are two, else one.
#pragma once

#include <cstdint>
#include <vector>

#include "vm/device/cuda_check.h"

namespace serval::testing {

inline std::vector<int> gpus_of_ranks(uint32_t ranks) {
  int count = 0;
  SERVAL_CUDA_CHECK(cudaGetDeviceCount(&count));
  std::vector<int> gpus;
  for (uint32_t rank = 0; rank < ranks; ++rank) gpus.push_back(count > 1 ? static_cast<int>(rank % 2) : 0);
  return gpus;
}

}  // namespace serval::testing
