#include "instructions/kernels.h"

#include "instructions/isa.h"

namespace serval {
namespace {

constexpr KernelTraits kKernels[] = {
#define SERVAL_KERNEL(Name, rows, head_dim, ring_pages, scratch_kib, activation_rows) \
  {#Name, rows, head_dim, ring_pages, scratch_kib, activation_rows},
#include "instructions/kernels.def"
#undef SERVAL_KERNEL
};

}  // namespace

std::span<const KernelTraits> kernels() {
  return kKernels;
}

bool runs(const KernelTraits& kernel, const Program& program) {
  return kernel.head_dim == 0 || has_heads_of(program, kernel.head_dim);
}

}  // namespace serval
