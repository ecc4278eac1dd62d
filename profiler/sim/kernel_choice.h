// Which kernel runs a program's pass, as the GPU's interpreter chooses (instructions/device_isa.cu).
#pragma once

#include <cstdint>

#include "profiler/sim/parameters.h"
#include "vm/program.h"

namespace serval {

// The first that can run the program's passes of so many rows, with the ring and the activations' rows that
// the parameters ask for, where they do.
KernelChoice kernel_choice(const Program& program, uint32_t rows, const SimParameters& parameters);

}  // namespace serval
