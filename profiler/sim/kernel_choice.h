// Chooses the kernel that runs a program's pass, as the GPU's interpreter does
// (instructions/sm90/device_isa.cu).
#pragma once

#include <cstdint>

#include "instructions/kernels.h"
#include "profiler/sim/parameters.h"
#include "vm/program.h"

namespace serval {

// The first of instructions/sm90/kernels.def that can run the program's passes of `rows` rows. If none takes
// so many rows, the largest one, as if it were compiled for them. The parameters may set the ring's pages and
// the activations' rows.
KernelTraits kernel_choice(const Program& program, uint32_t rows, const SimParameters& parameters);

}  // namespace serval
