#include "instructions/common/matvec.h"

#include <cstring>

#include "instructions/common/each_cpu.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

constexpr size_t kHalf = kMatvecLanes / 2;
constexpr int kBf16Shift = 16;  // a bf16 is the upper half of a float
constexpr uint32_t kUpperHalf = 0xFFFF0000;

// --- products

// A vector of kWidth floats.
template <size_t kWidth>
struct Vector {
  typedef float Floats __attribute__((vector_size(kWidth * sizeof(float))));
  typedef uint32_t Words __attribute__((vector_size(kWidth * sizeof(uint32_t))));
};

// Outputs and rows of x that are computed at once: each pair of them takes two registers for sums. There are
// 32 registers of 16 floats, but only 16 of fewer.
template <size_t kWidth>
constexpr size_t kOutputsAtOnce = kWidth == 16 ? 4 : 2;
constexpr size_t kRowsAtOnce = 3;
// Rows and columns of x in a block that is multiplied with the same weights; a block stays in the L1 cache.
constexpr size_t kRowsOfBlock = 16;
constexpr size_t kColsOfBlock = 1024;

// The partial sums of an output, those of even columns first.
using Lanes = float[kMatvecLanes];

// Adds the products of `cols` columns, a multiple of 32, to sums that start at 0 if `begins`. A word of
// weights has an even column's bf16 in its lower half and an odd column's in its upper half; x has its
// columns in the corresponding order (matvec_row()).
template <size_t kWidth, size_t kOutputs, size_t kRows>
SERVAL_INLINE void add_products(const uint16_t* weights, size_t weights_stride, const float* x,
                                size_t x_stride, size_t cols, bool begins, Lanes* lanes) {
  using Floats = typename Vector<kWidth>::Floats;
  using Words = typename Vector<kWidth>::Words;
  for (size_t lane = 0; lane < kHalf; lane += kWidth) {
    Floats even[kOutputs][kRows] = {}, odd[kOutputs][kRows] = {};
    for (size_t j = 0; j < kOutputs && !begins; ++j) {
      for (size_t r = 0; r < kRows; ++r) {
        std::memcpy(&even[j][r], lanes[j * kRowsOfBlock + r] + lane, sizeof(Floats));
        std::memcpy(&odd[j][r], lanes[j * kRowsOfBlock + r] + kHalf + lane, sizeof(Floats));
      }
    }
    for (size_t k = 0; k < cols; k += kMatvecLanes) {
      for (size_t j = 0; j < kOutputs; ++j) {
        Words words;
        std::memcpy(&words, weights + j * weights_stride + k + 2 * lane, sizeof words);
        const Words low = words << kBf16Shift, high = words & kUpperHalf;
        Floats w_even, w_odd;
        std::memcpy(&w_even, &low, sizeof w_even);
        std::memcpy(&w_odd, &high, sizeof w_odd);
        for (size_t r = 0; r < kRows; ++r) {
          Floats x_even, x_odd;
          std::memcpy(&x_even, x + r * x_stride + k + lane, sizeof x_even);
          std::memcpy(&x_odd, x + r * x_stride + k + kHalf + lane, sizeof x_odd);
          even[j][r] += w_even * x_even;
          odd[j][r] += w_odd * x_odd;
        }
      }
    }
    for (size_t j = 0; j < kOutputs; ++j) {
      for (size_t r = 0; r < kRows; ++r) {
        std::memcpy(lanes[j * kRowsOfBlock + r] + lane, &even[j][r], sizeof(Floats));
        std::memcpy(lanes[j * kRowsOfBlock + r] + kHalf + lane, &odd[j][r], sizeof(Floats));
      }
    }
  }
}

// add_products() for up to kRowsOfBlock rows.
template <size_t kWidth, size_t kOutputs>
SERVAL_INLINE void add_rows(const uint16_t* weights, size_t weights_stride, const float* x, size_t x_stride,
                            size_t cols, size_t rows, bool begins, Lanes* lanes) {
  for (size_t r = 0; r < rows;) {
    const size_t left = rows - r;
    const float* from = x + r * x_stride;
    if (left == kRowsAtOnce || left > kRowsAtOnce + 1) {
      add_products<kWidth, kOutputs, kRowsAtOnce>(weights, weights_stride, from, x_stride, cols, begins,
                                                  lanes + r);
      r += kRowsAtOnce;
    } else if (left > 1) {
      add_products<kWidth, kOutputs, 2>(weights, weights_stride, from, x_stride, cols, begins, lanes + r);
      r += 2;
    } else {
      add_products<kWidth, kOutputs, 1>(weights, weights_stride, from, x_stride, cols, begins, lanes + r);
      r += 1;
    }
  }
}

// Adds the upper half of an output's partial sums to the lower until one is left. Lanes i and i + 16 are 8
// apart here; neighbours, an even and an odd column, are added last.
SERVAL_INLINE float fold(const Lanes& lanes) {
  typedef float Eight __attribute__((vector_size(8 * sizeof(float))));
  Eight even, odd, upper;
  std::memcpy(&even, lanes, sizeof even);
  std::memcpy(&upper, lanes + 8, sizeof upper);
  even += upper;
  std::memcpy(&odd, lanes + kHalf, sizeof odd);
  std::memcpy(&upper, lanes + kHalf + 8, sizeof upper);
  odd += upper;
  Eight sums = __builtin_shufflevector(even, odd, 0, 1, 2, 3, 8, 9, 10, 11);
  sums += __builtin_shufflevector(even, odd, 4, 5, 6, 7, 12, 13, 14, 15);
  sums += __builtin_shufflevector(sums, sums, 2, 3, 2, 3, 6, 7, 6, 7);
  sums += __builtin_shufflevector(sums, sums, 1, 1, 1, 1, 5, 5, 5, 5);
  return sums[0] + sums[4];
}

// Multiplies the columns after the last whole 32, padded with zeros. A sum that began with 0 is not changed
// by these.
template <size_t kWidth, size_t kOutputs>
SERVAL_INLINE void add_last_cols(WeightRows weights, size_t cols, size_t done, const float* x, size_t rows,
                                 Lanes* lanes) {
  uint16_t padded[kOutputs * kMatvecLanes] = {};
  for (size_t j = 0; j < kOutputs; ++j)
    std::memcpy(padded + j * kMatvecLanes, weights.data + j * weights.stride + done,
                (cols - done) * sizeof(uint16_t));
  add_rows<kWidth, kOutputs>(padded, kMatvecLanes, x + done, matvec_cols(cols), kMatvecLanes, rows, done == 0,
                             lanes);
}

template <size_t kWidth, size_t kOutputs>
SERVAL_INLINE void multiply_block(WeightRows weights, size_t cols, const float* x, size_t rows, float* out,
                                  size_t out_stride) {
  Lanes lanes[kOutputs * kRowsOfBlock];
  const size_t whole = cols / kMatvecLanes * kMatvecLanes;
  for (size_t k = 0; k < whole; k += kColsOfBlock) {
    const size_t count = whole - k < kColsOfBlock ? whole - k : kColsOfBlock;
    add_rows<kWidth, kOutputs>(weights.data + k, weights.stride, x + k, matvec_cols(cols), count, rows,
                               k == 0, lanes);
  }
  if (whole < cols) add_last_cols<kWidth, kOutputs>(weights, cols, whole, x, rows, lanes);
  for (size_t j = 0; j < kOutputs; ++j) {
    for (size_t r = 0; r < rows; ++r) out[r * out_stride + j] = fold(lanes[j * kRowsOfBlock + r]);
  }
}

template <size_t kWidth, size_t kOutputs>
SERVAL_INLINE void multiply_outputs(WeightRows weights, size_t cols, const float* x, size_t num_rows,
                                    float* out, size_t out_stride) {
  for (size_t r = 0; r < num_rows; r += kRowsOfBlock) {
    const size_t rows = num_rows - r < kRowsOfBlock ? num_rows - r : kRowsOfBlock;
    multiply_block<kWidth, kOutputs>(weights, cols, x + r * matvec_cols(cols), rows, out + r * out_stride,
                                     out_stride);
  }
}

template <size_t kWidth>
SERVAL_INLINE void multiply(WeightRows weights, size_t num_outputs, size_t cols, const float* x,
                            size_t num_rows, float* out, size_t out_stride) {
  constexpr size_t kOutputs = kOutputsAtOnce<kWidth>;
  size_t j = 0;
  for (; j + kOutputs <= num_outputs; j += kOutputs)
    multiply_outputs<kWidth, kOutputs>({weights.data + j * weights.stride, weights.stride}, cols, x, num_rows,
                                       out + j, out_stride);
  for (; j < num_outputs; ++j)
    multiply_outputs<kWidth, 1>({weights.data + j * weights.stride, weights.stride}, cols, x, num_rows,
                                out + j, out_stride);
}

using Multiply = void (*)(WeightRows, size_t, size_t, const float*, size_t, float*, size_t);

void multiply_by_4(WeightRows weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
                   float* out, size_t out_stride) {
  multiply<4>(weights, num_outputs, cols, x, num_rows, out, out_stride);
}

#if SERVAL_PICKS_CPU
__attribute__((target("arch=x86-64-v3"))) void multiply_by_8(WeightRows weights, size_t num_outputs,
                                                             size_t cols, const float* x, size_t num_rows,
                                                             float* out, size_t out_stride) {
  multiply<8>(weights, num_outputs, cols, x, num_rows, out, out_stride);
}
__attribute__((target("arch=x86-64-v4"))) void multiply_by_16(WeightRows weights, size_t num_outputs,
                                                              size_t cols, const float* x, size_t num_rows,
                                                              float* out, size_t out_stride) {
  multiply<16>(weights, num_outputs, cols, x, num_rows, out, out_stride);
}
Multiply pick_multiply() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return multiply_by_16;
  return __builtin_cpu_supports("x86-64-v3") ? multiply_by_8 : multiply_by_4;
}
#else
Multiply pick_multiply() {
  return multiply_by_4;
}
#endif

template <class Widen>
void widen_row(const uint16_t* row, size_t cols, float* out, Widen widen) {
  const size_t whole = cols / kMatvecLanes * kMatvecLanes;
  for (size_t k = 0; k < whole; k += kMatvecLanes) {
    for (size_t i = 0; i < kHalf; ++i) {
      out[k + i] = widen(row[k + 2 * i]);
      out[k + kHalf + i] = widen(row[k + 2 * i + 1]);
    }
  }
  std::memset(out + whole, 0, (matvec_cols(cols) - whole) * sizeof(float));
  for (size_t k = whole; k < cols; ++k) out[whole + (k - whole) / 2 + (k % 2) * kHalf] = widen(row[k]);
}

}  // namespace

void matvec_row(const uint16_t* row, size_t cols, float* out) {
  widen_row(row, cols, out, [](uint16_t bits) { return bf16_to_float(bits); });
}

void matvec_row_of_fp16(const uint16_t* row, size_t cols, float* out) {
  widen_row(row, cols, out, [](uint16_t bits) { return fp16_to_float(bits); });
}

void matvec(WeightRows weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows, float* out,
            size_t out_stride) {
  static const Multiply picked = pick_multiply();
  picked(weights, num_outputs, cols, x, num_rows, out, out_stride);
}

}  // namespace serval
