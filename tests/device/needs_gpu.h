// For tests on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "gtest/gtest.h"

// Skips the test if there is no GPU.
#define SERVAL_NEEDS_GPU()                                                                     \
  do {                                                                                         \
    int devices = 0;                                                                           \
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {                         \
      GTEST_SKIP() << "NOT TESTED: there is no GPU here, and this test is about nothing else"; \
    }                                                                                          \
  } while (false)
