#include "instructions/common/matvec.h"

#include <cstring>

// The same source is compiled for several vector widths and picked when the program starts. Sanitizers' run
// times are not ready when that happens, and clang 14 lacks the syntax: there the baseline is used, with the
// same results.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SERVAL_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SERVAL_FOR_EACH_CPU
#endif
#define SERVAL_INLINE inline __attribute__((always_inline))

namespace serval {
namespace {

constexpr size_t kHalf =
    kMatvecLanes / 2;  // 16 floats: one 512-bit register, and the step that cols is a multiple of
typedef float Floats __attribute__((vector_size(kHalf * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(kHalf * sizeof(uint32_t))));
typedef uint16_t Halves __attribute__((vector_size(kHalf * sizeof(uint16_t))));

constexpr int kBf16Shift = 16;  // a bf16 is the upper half of a float

SERVAL_INLINE void load_bf16(const uint16_t* p, Floats& out) {
  Halves h;
  std::memcpy(&h, p, sizeof h);
  const Words bits = __builtin_convertvector(h, Words) << kBf16Shift;
  std::memcpy(&out, &bits, sizeof out);
}

SERVAL_INLINE void load_floats(const float* p, Floats& out) {
  std::memcpy(&out, p, sizeof out);
}

SERVAL_INLINE float fold(const Floats& low, const Floats& high) {
  float lanes[kHalf];
  const Floats sum = low + high;
  std::memcpy(lanes, &sum, sizeof sum);
  for (size_t width = kHalf / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

// One weight row against R rows of x.
template <size_t R>
SERVAL_INLINE void dot_rows(const uint16_t* w, size_t cols, const float* x, float* out, size_t out_stride) {
  Floats low[R] = {}, high[R] = {};
  size_t k = 0;
  for (; k + kMatvecLanes <= cols; k += kMatvecLanes) {
    Floats w_low, w_high;
    load_bf16(w + k, w_low);
    load_bf16(w + k + kHalf, w_high);
    for (size_t r = 0; r < R; ++r) {
      Floats x_low, x_high;
      load_floats(x + r * cols + k, x_low);
      load_floats(x + r * cols + k + kHalf, x_high);
      low[r] += w_low * x_low;
      high[r] += w_high * x_high;
    }
  }
  if (k < cols) {
    Floats w_low;
    load_bf16(w + k, w_low);
    for (size_t r = 0; r < R; ++r) {
      Floats x_low;
      load_floats(x + r * cols + k, x_low);
      low[r] += w_low * x_low;
    }
  }
  for (size_t r = 0; r < R; ++r) out[r * out_stride] = fold(low[r], high[r]);
}

}  // namespace

SERVAL_FOR_EACH_CPU
void matvec(const uint16_t* weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
            float* out, size_t out_stride) {
  constexpr size_t kTile = 4;  // rows of x that share one pass over a weight row
  for (size_t j = 0; j < num_outputs; ++j) {
    const uint16_t* w = weights + j * cols;
    size_t r = 0;
    for (; r + kTile <= num_rows; r += kTile) {
      dot_rows<kTile>(w, cols, x + r * cols, out + r * out_stride + j, out_stride);
    }
    for (; r < num_rows; ++r) dot_rows<1>(w, cols, x + r * cols, out + r * out_stride + j, out_stride);
  }
}

SERVAL_FOR_EACH_CPU
void accumulate_rows(const uint16_t* values, size_t num_values, size_t cols, const float* p, float* out) {
  for (size_t d = 0; d < cols; d += kHalf) {
    Floats sum;
    load_floats(out + d, sum);
    for (size_t t = 0; t < num_values; ++t) {
      Floats v;
      load_bf16(values + t * cols + d, v);
      sum += v * p[t];
    }
    std::memcpy(out + d, &sum, sizeof sum);
  }
}

}  // namespace serval
