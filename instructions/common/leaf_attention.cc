#include "instructions/common/leaf_attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "instructions/common/each_cpu.h"
#include "instructions/common/exponential.h"
#include "instructions/common/matvec.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

constexpr size_t kHalf = kMatvecLanes / 2;
constexpr int kBf16Shift = 16;  // a bf16 is the upper half of a float

// 16 floats: one 512-bit register; cols is a multiple of 16.
typedef float Floats __attribute__((vector_size(kHalf * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(kHalf * sizeof(uint32_t))));
typedef uint16_t Halves __attribute__((vector_size(kHalf * sizeof(uint16_t))));

SERVAL_INLINE void load_bf16(const uint16_t* p, Floats& out) {
  Halves h;
  std::memcpy(&h, p, sizeof h);
  const Words bits = __builtin_convertvector(h, Words) << kBf16Shift;
  std::memcpy(&out, &bits, sizeof out);
}

SERVAL_INLINE void load_floats(const float* p, Floats& out) {
  std::memcpy(&out, p, sizeof out);
}

// Several rows at once: their sums are independent, and each value is widened once for all of them.
template <size_t kRows>
SERVAL_INLINE void accumulate_block(const uint16_t* values, size_t num_values, size_t cols, const float* p,
                                    size_t p_stride, float* out, size_t out_stride) {
  for (size_t d = 0; d < cols; d += kHalf) {
    Floats sums[kRows];
    for (size_t r = 0; r < kRows; ++r) load_floats(out + r * out_stride + d, sums[r]);
    for (size_t t = 0; t < num_values; ++t) {
      Floats v;
      load_bf16(values + t * cols + d, v);
      for (size_t r = 0; r < kRows; ++r) sums[r] += v * p[r * p_stride + t];
    }
    for (size_t r = 0; r < kRows; ++r) std::memcpy(out + r * out_stride + d, &sums[r], sizeof sums[r]);
  }
}

// --- products with keys

// Multiplies kKeysAtOnce keys by kRows rows of x. A lane is a key, so that matvec()'s fold becomes additions
// of whole registers, with the same partial sums in the same order.
template <size_t kRows>
SERVAL_INLINE void multiply_key_group(const float* keys, size_t cols, const float* x, float* out,
                                      size_t out_stride) {
  constexpr size_t kQuarter = kHalf / 2, kEighth = kQuarter / 2;
  static_assert(kKeysAtOnce == kHalf);
  Floats evens_then_odds[2][kRows];
  for (size_t half = 0; half < 2; ++half) {
    Floats sums[kEighth][kRows];
    for (size_t i = 0; i < kQuarter; ++i) {
      Floats lower[kRows] = {}, upper[kRows] = {};
      // Lanes whose sums are added first are processed in succession: 0, 4, 1, 5, …
      const size_t lane = half * kHalf + i / 2 + i % 2 * kEighth;
      for (size_t c = lane; c < cols; c += kMatvecLanes) {
        Floats low_key, high_key;
        load_floats(keys + c * kKeysAtOnce, low_key);
        load_floats(keys + (c + kQuarter) * kKeysAtOnce, high_key);
        for (size_t r = 0; r < kRows; ++r) {
          lower[r] += low_key * x[r * cols + c];
          upper[r] += high_key * x[r * cols + c + kQuarter];
        }
      }
      for (size_t r = 0; r < kRows; ++r) {
        const Floats sum = lower[r] + upper[r];
        sums[i / 2][r] = i % 2 == 0 ? sum : sums[i / 2][r] + sum;
      }
    }
    for (size_t r = 0; r < kRows; ++r)
      evens_then_odds[half][r] = (sums[0][r] + sums[2][r]) + (sums[1][r] + sums[3][r]);
  }
  for (size_t r = 0; r < kRows; ++r) {
    const Floats products = evens_then_odds[0][r] + evens_then_odds[1][r];
    std::memcpy(out + r * out_stride, &products, sizeof products);
  }
}

// Scales the scores; returns the largest.
SERVAL_INLINE float scale_scores(float* scores, size_t count, float scale) {
  constexpr size_t kLanes = 8;  // independent maxima
  float largest[kLanes];
  std::fill(largest, largest + kLanes, -std::numeric_limits<float>::infinity());
  size_t t = 0;
  for (; t + kLanes <= count; t += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) {
      scores[t + i] *= scale;
      largest[i] = std::max(largest[i], scores[t + i]);
    }
  }
  for (; t < count; ++t) {
    scores[t] *= scale;
    largest[0] = std::max(largest[0], scores[t]);
  }
  return *std::max_element(largest, largest + kLanes);
}

// Sums of several rows, each in order: the rows' additions are independent.
constexpr size_t kRowsOfSums = 4;
template <size_t kRows>
SERVAL_INLINE void add_up(const SoftmaxRow* rows) {
  size_t common = rows[0].count;
  for (size_t r = 1; r < kRows; ++r) common = std::min(common, rows[r].count);
  float sums[kRows] = {};
  for (size_t t = 0; t < common; ++t) {
    for (size_t r = 0; r < kRows; ++r) sums[r] += rows[r].scores[t];
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = common; t < rows[r].count; ++t) sums[r] += rows[r].scores[t];
    *rows[r].sum = sums[r];
  }
}

}  // namespace

SERVAL_FOR_EACH_CPU
void widen_keys(const uint16_t* keys, size_t num_keys, size_t cols, float* out) {
  for (size_t first = 0; first < num_keys; first += kKeysAtOnce) {
    const size_t count = num_keys - first < kKeysAtOnce ? num_keys - first : kKeysAtOnce;
    const uint16_t* group = keys + first * cols;
    for (size_t place = 0; place < cols; ++place) {  // position of a column in the order of matvec_row()
      const size_t lane = place % kMatvecLanes;
      const size_t col = place - lane + lane % kHalf * 2 + lane / kHalf;
      float* to = out + first * cols + place * kKeysAtOnce;
      for (size_t j = 0; j < count; ++j) to[j] = bf16_to_float(group[j * cols + col]);
      for (size_t j = count; j < kKeysAtOnce; ++j) to[j] = 0;
    }
  }
}

SERVAL_FOR_EACH_CPU
void multiply_keys(const float* keys, size_t num_keys, size_t cols, const float* x, size_t num_rows,
                   float* out, size_t out_stride) {
  constexpr size_t kMostRows = 4;
  for (size_t first = 0; first < num_keys; first += kKeysAtOnce) {
    const float* group = keys + first * cols;
    size_t r = 0;
    for (; r + kMostRows <= num_rows; r += kMostRows)
      multiply_key_group<kMostRows>(group, cols, x + r * cols, out + r * out_stride + first, out_stride);
    for (; r < num_rows; ++r)
      multiply_key_group<1>(group, cols, x + r * cols, out + r * out_stride + first, out_stride);
  }
}

SERVAL_FOR_EACH_CPU
void softmax(std::span<const SoftmaxRow> rows, float scale) {
  for (const SoftmaxRow& row : rows) {
    const float largest = scale_scores(row.scores, row.count, scale);
    *row.largest = largest;
    for (size_t t = 0; t < row.count; ++t) row.scores[t] -= largest;
    exponentials(row.scores, row.count);
  }
  size_t r = 0;
  for (; r + kRowsOfSums <= rows.size(); r += kRowsOfSums) add_up<kRowsOfSums>(rows.data() + r);
  for (; r < rows.size(); ++r) add_up<1>(rows.data() + r);
  for (const SoftmaxRow& row : rows) {
    for (size_t t = 0; t < row.count; ++t) row.scores[t] = bf16_to_float(float_to_bf16(row.scores[t]));
  }
}

SERVAL_FOR_EACH_CPU
void accumulate_rows(const uint16_t* values, size_t num_values, size_t cols, const float* p, size_t p_stride,
                     size_t num_rows, float* out, size_t out_stride) {
  constexpr size_t kMost = 8;
  size_t r = 0;
  for (; r + kMost <= num_rows; r += kMost)
    accumulate_block<kMost>(values, num_values, cols, p + r * p_stride, p_stride, out + r * out_stride,
                            out_stride);
  for (; r + 2 <= num_rows; r += 2)
    accumulate_block<2>(values, num_values, cols, p + r * p_stride, p_stride, out + r * out_stride,
                        out_stride);
  if (r < num_rows)
    accumulate_block<1>(values, num_values, cols, p + r * p_stride, p_stride, out + r * out_stride,
                        out_stride);
}

void accumulate_rows(const uint16_t* values, size_t num_values, size_t cols, const float* p, float* out) {
  accumulate_rows(values, num_values, cols, p, 0, 1, out, 0);
}

}  // namespace serval
