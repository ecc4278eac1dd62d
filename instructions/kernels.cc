#include "instructions/kernels.h"

#include <algorithm>

#include "instructions/isa.h"

namespace serval {
namespace {

constexpr KernelTraits kKernels[] = {
#define SERVAL_KERNEL(Name, rows, head_dim, head_norms, ring_pages, scratch_kib, activation_rows) \
  {#Name, rows, head_dim, head_norms != 0, ring_pages, scratch_kib, activation_rows, 0},
#define SERVAL_GEMM_KERNEL(Name, rows, tile_rows, head_dim, ring_pages, scratch_kib) \
  {#Name, rows, head_dim, true, ring_pages, scratch_kib, 0, tile_rows},
#include "instructions/kernels.def"
#undef SERVAL_KERNEL
#undef SERVAL_GEMM_KERNEL
};

}  // namespace

std::span<const KernelTraits> kernels() {
  return kKernels;
}

uint32_t gemm_ring_pages() {
  uint32_t pages = ~0U;
  for (const KernelTraits& kernel : kKernels) {
    if (kernel.tile_rows > 0) pages = std::min(pages, kernel.ring_pages);
  }
  return pages;
}

bool runs(const KernelTraits& kernel, const Program& program) {
  if (multiplies_tiles(program) != (kernel.tile_rows > 0)) return false;
  if (!kernel.head_norms && has_head_norms(program)) return false;
  return kernel.head_dim == 0 || has_heads_of(program, kernel.head_dim);
}

}  // namespace serval
