#include "profiler/sim/kernel_choice.h"

#include <algorithm>

#include "instructions/isa.h"

namespace serval {

KernelChoice kernel_choice(const Program& program, uint32_t rows, const SimParameters& parameters) {
  KernelChoice choice = *std::ranges::find_if(parameters.kernels, [&](const KernelChoice& k) {
    return rows <= k.rows && (k.head_dim == 0 || has_heads_of(program, k.head_dim));
  });
  if (parameters.ring_pages > 0) choice.ring_pages = parameters.ring_pages;
  if (parameters.activation_rows > 0) choice.activation_rows = parameters.activation_rows;
  return choice;
}

}  // namespace serval
