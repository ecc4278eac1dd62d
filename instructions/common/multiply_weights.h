// Products of a program's weights with activations in host memory, whatever the weights' storage type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/host/memory.h"
#include "vm/instruction.h"

namespace serval {

// Rows [first_row, first_row + num_rows) and columns [first_col, first_col + num_cols) of a weight matrix
// that has `cols` columns. Columns are multiples of 16.
struct WeightBlock {
  TensorId weights;
  size_t first_row, num_rows;
  size_t cols;
  size_t first_col, num_cols;
};
inline WeightBlock all_columns(TensorId weights, size_t first_row, size_t num_rows, size_t cols) {
  return {weights, first_row, num_rows, cols, 0, cols};
}

// out[r × out_stride + j] = Σ_k block[j, k] × x[r, k] for num_rows outputs j and `rows` rows r of x, in the
// layout of matvec(). The sum over values of codes is multiplied by the row's scale. In programs whose sums
// have the bits of tiles, the values of 4-bit codes are rounded to fp16 (vm/base/int4.h). Thread-safe.
void multiply_weights(const HostMemory& m, const WeightBlock& block, const float* x, size_t rows, float* out,
                      size_t out_stride);

}  // namespace serval
