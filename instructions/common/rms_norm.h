// RMS norm of the host's rows, rounded to bf16 as the tensor cores will read it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace serval {

// out[i] = bf16(x[i] × w[i] / sqrt(mean(x²) + epsilon)), kept as float; w is bf16; n is a multiple of 16. The
// squares are summed in the order of matvec(). Thread-safe.
void rms_norm(const float* x, const uint16_t* w, size_t n, float epsilon, float* out);

// The same for each of `rows` rows of x and out, [rows, n] both.
void rms_norm_rows(const float* x, const uint16_t* w, size_t rows, size_t n, float epsilon, float* out);

}  // namespace serval
