// Compiled without fused multiply-add: squares are not exact in fp32, and the bits must not depend on the
// CPU.
#include "instructions/common/residual.h"

#include <cmath>

#include "vm/base/bf16.h"

namespace serval {
namespace {

// Adds neighbours of the `count` values, a power of two, until one is left.
float add_neighbours(float* x, size_t count) {
  for (size_t width = count; width > 1; width /= 2) {
    for (size_t i = 0; i < width / 2; ++i) x[i] = x[2 * i] + x[2 * i + 1];
  }
  return x[0];
}

}  // namespace

void apply_norm(const float* x, const uint16_t* norm, size_t n, size_t square_cols, uint16_t* weighted,
                float* squares, DType dtype) {
  for (size_t first = 0; first < n; first += square_cols) {
    float square[kSquareColsOfTiles];
    for (size_t i = 0; i < square_cols; ++i) {
      const float value = x[first + i];
      square[i] = value * value;
      weighted[first + i] = to_16_bits(dtype, value * bf16_to_float(norm[first + i]));
    }
    squares[first / square_cols] = add_neighbours(square, square_cols);
  }
}

std::vector<float> squares_of_gemm(const float* squares, size_t cols) {
  constexpr size_t kSums = kSquareColsOfTiles / kSquareColsOfMatvec;
  std::vector<float> left(squares, squares + cols / kSquareColsOfMatvec), sums(cols / kSquareColsOfTiles);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = add_neighbours(left.data() + i * kSums, kSums);
  return sums;
}

float rms_scale(const float* squares, size_t cols, size_t square_cols, float epsilon) {
  constexpr size_t kLanes = 32;
  float lanes[kLanes] = {};
  const size_t sums = cols / square_cols;
  for (size_t pair = 0; pair < (sums + 1) / 2; ++pair) {
    lanes[pair % kLanes] += squares[2 * pair] + (2 * pair + 1 < sums ? squares[2 * pair + 1] : 0);
  }
  return 1.0F / std::sqrt(add_neighbours(lanes, kLanes) / static_cast<float>(cols) + epsilon);
}

float head_scale(const float* head, size_t n, float epsilon) {
  constexpr size_t kMaxPairs = 64;
  float sums[kMaxPairs] = {};
  const size_t pairs = n / 2;
  for (size_t i = 0; i < pairs; ++i) sums[i] = head[i] * head[i] + head[i + pairs] * head[i + pairs];
  return 1.0F / std::sqrt(add_neighbours(sums, pairs) / static_cast<float>(n) + epsilon);
}

}  // namespace serval
