// Exits with code 0 if tests that need a GPU can run, otherwise with 1 and the reason on stdout.
#include <cstdio>

#include "engine/backend/device_backend.h"
#include "vm/base/error.h"

int main() {
  try {
    serval::check_device();
  } catch (const serval::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
