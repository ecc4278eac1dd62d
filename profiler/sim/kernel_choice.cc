#include "profiler/sim/kernel_choice.h"

#include <bit>

namespace serval {

KernelTraits kernel_choice(const Program& program, uint32_t rows, const SimParameters& parameters) {
  KernelTraits choice{};
  for (const KernelTraits& kernel : kernels()) {
    // Kernels for single rows are skipped: they are laid out like the kernels for all passes that follow
    // them.
    if (kernel.single_rows || !runs(kernel, program)) continue;
    choice = kernel;
    if (rows <= kernel.rows) break;
  }
  if (choice.rows < rows) choice.rows = std::bit_ceil(rows);
  if (parameters.ring_pages > 0) choice.ring_pages = static_cast<uint32_t>(parameters.ring_pages);
  if (parameters.activation_rows > 0)
    choice.activation_rows = static_cast<uint32_t>(parameters.activation_rows);
  return choice;
}

}  // namespace serval
