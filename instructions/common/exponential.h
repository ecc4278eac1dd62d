// exp for many values at once, with the same bits on every CPU and with every C library.
#pragma once

#include <cstddef>

namespace serval {

// x[i] = exp(x[i]), within 0.51 units in the last place; x[i] <= 0 or NaN. exp(0) is 1. Thread-safe.
void exponentials(float* x, size_t count);

}  // namespace serval
