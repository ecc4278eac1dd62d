// Without a GPU, skips all tests of the executable, with the text that ctest looks for.
#include <cstdio>

#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "vm/base/error.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  try {
    serval::check_device();
  } catch (const serval::Error& error) {
    std::printf("[  SKIPPED ] %s\n", error.what());
    return 0;
  }
  return RUN_ALL_TESTS();
}
