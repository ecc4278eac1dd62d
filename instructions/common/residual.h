// RMS norm in two halves. The instruction that writes the residual also writes the input of its next readers:
// each value times its weight of their norm, rounded to bf16, and sums of squares of 8 or 64 values. A
// product of weights with these rows, divided by the root mean square, is the product with the normalised
// rows: so readers copy the rows unchanged and scale the sums at the end.
//
// The number of values in a sum of squares depends on the arithmetic class: 8 in programs that multiply
// matrices with vectors, as many as a storer finishes at once; 64 in programs of tiles, as many as a
// warpgroup does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vm/dtype.h"
#include "vm/layout/units.h"
#include "vm/program_shape.h"

namespace serval {

// Values in a sum of squares, in the two arithmetic classes.
inline constexpr uint32_t kSquareColsOfMatvec = kUnitRows;
inline constexpr uint32_t kSquareColsOfTiles = 64;

// Values in a stored sum of squares.
constexpr uint32_t square_cols(Order order) {
  return order == Order::kTile ? kSquareColsOfTiles : kSquareColsOfMatvec;
}
// Values in the sums from which a row's scale is computed. In programs of vectors in tile order, readers
// first add up stored sums of 8 to sums of 64.
constexpr uint32_t normalised_square_cols(Order order) {
  return adds_as_tiles(order) ? kSquareColsOfTiles : kSquareColsOfMatvec;
}

// weighted[i] = x[i] × norm[i], rounded to `dtype`, kBF16 or kF16; squares[g] = sum of squares of the g-th
// group of `square_cols` values, added as a tree of neighbours. n is a multiple of square_cols, which is 8 or
// 64; norm is bf16. Thread-safe.
void apply_norm(const float* x, const uint16_t* norm, size_t n, size_t square_cols, uint16_t* weighted,
                float* squares, DType dtype = DType::kBF16);

// Converts a row's sums of squares of 8 values to sums of 64 values, with the bits that apply_norm() would
// give; cols, the row's values, is a multiple of 64. Thread-safe.
std::vector<float> squares_of_gemm(const float* squares, size_t cols);

// 1 / sqrt(mean square + epsilon) of a row of cols values, from its cols / square_cols sums; cols is a
// multiple of 16 and of square_cols. Pairs of sums (the last may be a single one) are distributed over 32
// lanes in turn; each lane adds its own in order, and the lanes are added as a tree. Thread-safe.
float rms_scale(const float* squares, size_t cols, size_t square_cols, float epsilon);

// 1 / sqrt(mean square + epsilon) of a head of n channels, 64 or 128: squares of the channels i and i + n / 2
// are added first, then neighbours of these sums as a tree. Thread-safe.
float head_scale(const float* head, size_t n, float epsilon);

}  // namespace serval
