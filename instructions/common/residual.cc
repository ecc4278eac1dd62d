// Compiled without fused multiply-add: squares are not exact in fp32, and the bits must not depend on the
// CPU.
#include "instructions/common/residual.h"

#include <cmath>

#include "vm/base/bf16.h"

namespace serval {
namespace {

// Halves the values by adding neighbours until one is left.
template <size_t kValues>
float add_neighbours(float (&x)[kValues]) {
  for (size_t width = kValues; width > 1; width /= 2) {
    for (size_t i = 0; i < width / 2; ++i) x[i] = x[2 * i] + x[2 * i + 1];
  }
  return x[0];
}

}  // namespace

void weigh(const float* x, const uint16_t* norm, size_t n, uint16_t* weighted, float* squares) {
  for (size_t first = 0; first < n; first += kUnitRows) {
    float square[kUnitRows];
    for (size_t i = 0; i < kUnitRows; ++i) {
      const float value = x[first + i];
      square[i] = value * value;
      weighted[first + i] = float_to_bf16(value * bf16_to_float(norm[first + i]));
    }
    squares[first / kUnitRows] = add_neighbours(square);
  }
}

float rms_scale(const float* squares, size_t cols, float epsilon) {
  constexpr size_t kLanes = 32;
  float lanes[kLanes] = {};
  for (size_t pair = 0; pair < cols / kUnitRows / 2; ++pair) {
    lanes[pair % kLanes] += squares[2 * pair] + squares[2 * pair + 1];
  }
  return 1.0F / std::sqrt(add_neighbours(lanes) / static_cast<float>(cols) + epsilon);
}

}  // namespace serval
