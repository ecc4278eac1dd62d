// Compiled without fused multiply-add: squares are not exact in fp32, and the bits must not depend on the
// CPU.
#include "instructions/common/rms_norm.h"

#include <cmath>

#include "instructions/common/matvec.h"
#include "vm/bf16.h"

namespace serval {
namespace {

float sum_of_squares(const float* x, size_t n) {
  float lanes[kMatvecLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kMatvecLanes] += x[i] * x[i];
  for (size_t width = kMatvecLanes / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

}  // namespace

void rms_norm(const float* x, const uint16_t* w, size_t n, float epsilon, float* out) {
  const float scale = 1.0F / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + epsilon);
  for (size_t i = 0; i < n; ++i) out[i] = bf16_to_float(float_to_bf16(x[i] * scale * bf16_to_float(w[i])));
}

void rms_norm_rows(const float* x, const uint16_t* w, size_t rows, size_t n, float epsilon, float* out) {
  for (size_t r = 0; r < rows; ++r) rms_norm(x + r * n, w, n, epsilon, out + r * n);
}

}  // namespace serval
