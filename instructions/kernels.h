// What the kernels of the device interpreter are compiled for: kernels.def as a table. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "vm/program.h"

namespace serval {

// The fields are those of kernels.def.
struct KernelTraits {
  const char* name;
  uint32_t rows;
  uint32_t head_dim;
  uint32_t ring_pages;
  uint32_t scratch_kib;
  uint32_t activation_rows;
};

// In the order of kernels.def.
std::span<const KernelTraits> kernels();
// True if the kernel has the code for all of the program's instructions.
bool runs(const KernelTraits& kernel, const Program& program);

}  // namespace serval
