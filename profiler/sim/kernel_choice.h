// Which kernel runs a program's pass, as the GPU's interpreter chooses (instructions/device_isa.cu).
#pragma once

#include <cstdint>

#include "instructions/kernels.h"
#include "profiler/sim/parameters.h"
#include "vm/program.h"

namespace serval {

// The first of instructions/kernels.def that can run the program's passes of `rows` rows, with the ring and
// the activations' rows that the parameters ask for, where they do. Where none takes so many rows, the
// largest, as if it were compiled for them.
KernelTraits kernel_choice(const Program& program, uint32_t rows, const SimParameters& parameters);

}  // namespace serval
