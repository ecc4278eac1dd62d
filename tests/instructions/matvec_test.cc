// The host's sums of products have a defined order, independent of the CPU's registers: every output has the
// bits of adding in the order of instructions/common/matvec.h, one term after the other.
#include "instructions/common/matvec.h"

#include <bit>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

#include "tests/instructions/scene.h"
#include "vm/base/bf16.h"

namespace serval::testing {
namespace {

TEST(Matvec, AddsInTheOrderThatItPromises) {
  Random random(1);
  for (int n = 0; n < 200; ++n) {
    // Sometimes more columns and rows than one iteration processes.
    const size_t cols = 16 * (random.chance(0.1) ? random.between(60, 200) : random.between(1, 20));
    const size_t outputs = random.between(1, 9), rows = random.chance(0.1) ? 37 : random.between(1, 19);
    const size_t stride = outputs + random.below(3);
    // All columns of the weights, or a K split.
    const size_t first_col = random.pick<size_t>({0, 0, 32}), row_cols = first_col + cols + first_col / 2;
    const std::vector<uint16_t> all_weights = random_bf16(random, outputs * row_cols);
    const uint16_t* weights = all_weights.data() + first_col;
    const std::vector<uint16_t> rows_of_x = random_bf16(random, rows * cols);
    std::vector<float> x(rows * matvec_cols(cols)), out(rows * stride, -1);
    for (size_t r = 0; r < rows; ++r)
      matvec_row(rows_of_x.data() + r * cols, cols, x.data() + r * matvec_cols(cols));
    matvec({weights, row_cols}, outputs, cols, x.data(), rows, out.data(), stride);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < stride; ++j) {
        const float want =
            j < outputs ? sum_in_order(weights + j * row_cols, rows_of_x.data() + r * cols, cols) : -1;
        ASSERT_EQ(std::bit_cast<uint32_t>(out[r * stride + j]), std::bit_cast<uint32_t>(want))
            << cols << " columns, " << rows << " rows, row " << r << ", output " << j << " of " << outputs;
      }
    }
  }
}

}  // namespace
}  // namespace serval::testing
