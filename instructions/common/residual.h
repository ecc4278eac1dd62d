// RMS norm in two halves. The instruction that writes the residual also writes what its next readers need:
// each value times its weight of their norm, rounded to bf16, and the sums of the squares of 8 values. A
// product of weights with these rows, divided by the root of the mean square, is the product with the
// normalised rows: readers copy rows as they are and multiply 8 sums at the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/layout/units.h"

namespace serval {

// weighted[i] = bf16(x[i] × norm[i]); squares[u] = the sum of the squares of x[8u … 8u + 7], added as a tree
// of neighbours. n is a multiple of 8; norm is bf16. Thread-safe.
void weigh(const float* x, const uint16_t* norm, size_t n, uint16_t* weighted, float* squares);

// 1 / sqrt(mean square + epsilon) of a row of cols values, from its cols / 8 sums; cols is a multiple of 16.
// Pairs of sums are dealt to 32 lanes in turn, each adds its own in order, and the lanes are added as a tree.
// Thread-safe.
float rms_scale(const float* squares, size_t cols, float epsilon);

}  // namespace serval
