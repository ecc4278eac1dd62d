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
  bool head_norms;
  uint32_t ring_pages;
  uint32_t scratch_kib;
  uint32_t activation_rows;
  uint32_t tile_rows;  // 0: multiplies with vectors
};

// In the order of kernels.def.
std::span<const KernelTraits> kernels();
// Pages of the ring of a kernel of GEMMs, at least.
uint32_t gemm_ring_pages();
// True if the kernel has the code for all of the program's instructions.
bool runs(const KernelTraits& kernel, const Program& program);

}  // namespace serval
