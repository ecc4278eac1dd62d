// The host's only matrix-vector kernel. Every product of weights and activations goes through it, so that an
// output's bits depend only on its weights and its input row: not on the number of rows of a pass, nor on the
// thread that computes it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace serval {

// Partial sums of an output: partial i adds the columns congruent to i modulo 32, in order; then the upper
// half of the partials is added to the lower half until one is left.
inline constexpr size_t kMatvecLanes = 32;

// Floats of a row of x with `cols` columns: whole groups of 32.
constexpr size_t matvec_cols(size_t cols) {
  return (cols + kMatvecLanes - 1) / kMatvecLanes * kMatvecLanes;
}
// Widens a row of bf16 into the order in which matvec() reads x, [matvec_cols(cols)]: in each group of 32
// columns the even ones, then the odd ones, as they are in the halves of a word of weights; missing columns
// are zero. cols is a multiple of 16. Several contiguous rows of whole groups may be converted in one call.
// Thread-safe.
void matvec_row(const uint16_t* row, size_t cols, float* out);
// … a row of fp16.
void matvec_row_of_fp16(const uint16_t* row, size_t cols, float* out);

// … a row of e4m3, of the codes' values.
void matvec_row_of_e4m3(const uint8_t* codes, size_t cols, float* out);

// Rows of bf16 weights: row j is at data + j × stride.
struct WeightRows {
  const uint16_t* data;
  size_t stride;
};

// out[r × out_stride + j] = Σ_k weights[j, k] × x[r, k], for j < num_outputs, r < num_rows and k < cols; row
// r of x is what matvec_row() makes, at r × matvec_cols(cols). x holds values that are exact in bf16, or in
// fp16 or e4m3 if the weights are exact in e4m3, so each product is exact in fp32 and fusing it with the
// addition changes nothing. cols is a multiple of 16. Thread-safe.
void matvec(WeightRows weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows, float* out,
            size_t out_stride);

// Rows of 4-bit weights (vm/layout/int4_rows.h) from column `first_col` on, a multiple of their group.
struct Int4WeightRows {
  const uint8_t* data;  // the first row
  size_t cols;          // of the matrix
  size_t first_col;
  uint32_t group;
};
// As above, without the scales of the rows; x holds values that are exact in fp16. Partial i adds up a
// group's columns, codes less their zero point times x, and then, fused, adds that sum times the group's
// scale, and the sum of the group's x times its minimum if it has one. cols is a multiple of the group.
void matvec(const Int4WeightRows& weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
            float* out, size_t out_stride);

// Rows of fp32 weights with the columns in the order of matvec_row(): row j is at data + j × stride.
struct OrderedWeightRows {
  const float* data;
  size_t stride;
};
// As for bf16 weights. The weights and x are exact in fp16, so each product is exact in fp32. cols is a
// multiple of 32.
void matvec(OrderedWeightRows weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
            float* out, size_t out_stride);

// For contiguous rows of bf16 weights.
inline void matvec(const uint16_t* weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
                   float* out, size_t out_stride) {
  matvec(WeightRows{weights, cols}, num_outputs, cols, x, num_rows, out, out_stride);
}

}  // namespace serval
