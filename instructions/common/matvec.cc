#include "instructions/common/matvec.h"

#include <cstring>
#include <type_traits>

#include "instructions/common/each_cpu.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/base/int4.h"
#include "vm/layout/int4_rows.h"

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

// --- weights: columns(output, first, count, columns) prepares some columns of kOutputs rows

// Columns of a bf16 matrix: a word has an even column in its lower half and an odd one in its upper half.
struct Bf16Columns {
  const uint16_t* data;
  size_t stride;

  // kWidth neighbouring even columns and the odd ones beside them, from lane `lane` of 32 columns on.
  template <size_t kWidth>
  SERVAL_INLINE void load(size_t output, size_t col, size_t lane, typename Vector<kWidth>::Floats& even,
                          typename Vector<kWidth>::Floats& odd) const {
    typename Vector<kWidth>::Words words;
    std::memcpy(&words, data + output * stride + col + 2 * lane, sizeof words);
    const auto low = words << kBf16Shift, high = words & kUpperHalf;
    std::memcpy(&even, &low, sizeof even);
    std::memcpy(&odd, &high, sizeof odd);
  }
};
// Columns of an fp32 matrix in the order of matvec_row().
struct OrderedColumns {
  const float* data;
  size_t stride;

  template <size_t kWidth>
  SERVAL_INLINE void load(size_t output, size_t col, size_t lane, typename Vector<kWidth>::Floats& even,
                          typename Vector<kWidth>::Floats& odd) const {
    const float* from = data + output * stride + col + lane;
    std::memcpy(&even, from, sizeof even);
    std::memcpy(&odd, from + kHalf, sizeof odd);
  }
};
// Weights that are read where they lie: `Rows` has the rows' data and stride.
template <class Rows, class ColumnsOfRows>
struct WeightsInPlace {
  template <size_t kOutputs>
  using Columns = ColumnsOfRows;
  Rows rows;

  template <size_t kWidth, size_t kOutputs>
  SERVAL_INLINE void columns(size_t output, size_t first, size_t /*count*/, ColumnsOfRows& columns) const {
    columns = {rows.data + output * rows.stride + first, rows.stride};
  }
};
using Bf16Weights = WeightsInPlace<WeightRows, Bf16Columns>;
using OrderedWeights = WeightsInPlace<OrderedWeightRows, OrderedColumns>;

// Numbers that codes stand for.
using Int4Table = float[int4::kCodes];

// kCodesLess.of[z]: the codes less zero point z.
struct CodesLessZeroPoints {
  alignas(64) Int4Table of[int4::kLargestZeroPoint + 1];
};
constexpr CodesLessZeroPoints make_codes_less() {
  CodesLessZeroPoints codes{};
  for (uint32_t zero = 0; zero <= int4::kLargestZeroPoint; ++zero)
    for (uint32_t q = 0; q < int4::kCodes; ++q)
      codes.of[zero][q] = static_cast<float>(q) - static_cast<float>(zero);
  return codes;
}
constexpr CodesLessZeroPoints kCodesLess = make_codes_less();

// values[i] = table[codes[i] % 16].
template <size_t kWidth>
SERVAL_INLINE void look_up(const Int4Table& table, const typename Vector<kWidth>::Words& codes,
                           typename Vector<kWidth>::Floats& values) {
#if SERVAL_PICKS_CPU
  if constexpr (kWidth >= 8) {
    typename Vector<kWidth>::Floats low, high;
    std::memcpy(&low, table, sizeof low);
    if constexpr (kWidth == int4::kCodes) {
      values = __builtin_shuffle(low, codes);
    } else {
      std::memcpy(&high, table + kWidth, sizeof high);
      values = __builtin_shuffle(low, high, codes);
    }
    return;
  }
#endif
  for (size_t i = 0; i < kWidth; ++i) values[i] = table[codes[i] % int4::kCodes];
}

// Columns of a matrix of 4-bit codes in groups of kGroup.
template <uint32_t kGroup, size_t kOutputs>
struct Int4Columns {
  static constexpr size_t kGroupsOfBlock = kColsOfBlock / kGroup;
  const uint8_t* codes[kOutputs];
  uint32_t zeros[kOutputs][kGroupsOfBlock];  // zero points, 0 for a group with a minimum
  float scales[kOutputs][kGroupsOfBlock];
  float minima[kOutputs][kGroupsOfBlock];  // 0 for a group with a zero point; unset without minima
  bool has_minima;                         // some group has one

  // Sets what the words of an output's `count` groups, at `from`, say.
  SERVAL_INLINE void set_groups(size_t output, const uint8_t* from, size_t count) {
    if (count != kGroupsOfBlock || !set_usual_groups(output, from)) [[unlikely]]
      set_any_groups(output, from, count);
  }

 private:
  // Returns false if some group has no zero point or a scale that is not a normal number. Nothing branches.
  SERVAL_INLINE bool set_usual_groups(size_t output, const uint8_t* from) {
    constexpr uint32_t kExponent = 0x7C00, kOne = 0x0400, kMagnitude = 0x7FFF, kRebias = (127 - 15) << 23;
    uint32_t words[kGroupsOfBlock], bits[kGroupsOfBlock], unusual = 0;
    std::memcpy(words, from, sizeof words);
    for (size_t n = 0; n < kGroupsOfBlock; ++n) {
      const uint32_t word = words[n];
      const uint32_t zero = (word >> 16) - int4::kZeroPointBits;
      // The exponents of 0 and of infinity are next to each other.
      unusual |= static_cast<uint32_t>(zero > int4::kLargestZeroPoint) |
                 static_cast<uint32_t>(((word + kOne) & kExponent) <= kOne);
      zeros[output][n] = zero;
      bits[n] = (word & 0x8000U) << 16 | (((word & kMagnitude) << 13) + kRebias);
    }
    std::memcpy(scales[output], bits, sizeof bits);
    if (unusual == 0 && has_minima) std::memset(minima[output], 0, sizeof minima[output]);
    return unusual == 0;
  }
  __attribute__((noinline)) void set_any_groups(size_t output, const uint8_t* from, size_t count) {
    for (size_t n = 0; n < count; ++n) {
      uint32_t word = 0;
      std::memcpy(&word, from + n * sizeof word, sizeof word);
      const bool has_zero = int4::has_zero_point(word);
      if (!has_zero && !has_minima) {
        has_minima = true;
        std::memset(minima, 0, sizeof minima);
      }
      zeros[output][n] = has_zero ? int4::zero_point_of(word) : 0;
      scales[output][n] = fp16_to_float(int4::scale_of(word));
      minima[output][n] = has_zero ? 0 : fp16_to_float(int4::minimum_of(word));
    }
  }
};
template <uint32_t kGroup>
struct Int4Weights {
  template <size_t kOutputs>
  using Columns = Int4Columns<kGroup, kOutputs>;
  Int4WeightRows rows;

  // Rows are so short that the CPU does not foresee where the next codes and words are: a core read 6 billion
  // weights a second from memory instead of 15. The rows need not exist.
  SERVAL_INLINE void prefetch(const uint8_t* row, size_t col) const {
    constexpr size_t kLine = 64;
    const uint8_t* codes = row + col / int4_rows::kBlockCols * int4_rows::kBlockBytes;
    for (size_t at = 0; at < kColsOfBlock / int4_rows::kBlockCols * int4_rows::kBlockBytes; at += kLine)
      __builtin_prefetch(codes + at);
    const uint8_t* words = row + int4_rows::code_bytes(rows.cols) + col / kGroup * sizeof(uint32_t);
    for (size_t at = 0; at < kColsOfBlock / kGroup * sizeof(uint32_t); at += kLine)
      __builtin_prefetch(words + at);
  }

  template <size_t kWidth, size_t kOutputs>
  SERVAL_INLINE void columns(size_t output, size_t first, size_t count,
                             Int4Columns<kGroup, kOutputs>& columns) const {
    const size_t row_bytes = int4_rows::row_bytes(rows.cols, kGroup), col = rows.first_col + first;
    // The next columns of these rows, or the first ones of the next rows.
    const bool ends_row = col + count >= rows.cols;
    const size_t next_col = ends_row ? rows.first_col : col + count;
    columns.has_minima = false;
    for (size_t j = 0; j < kOutputs; ++j) {
      const uint8_t* row = rows.data + (output + j) * row_bytes;
      prefetch(row + (ends_row ? kOutputs * row_bytes : 0), next_col);
      columns.codes[j] = row + col / int4_rows::kBlockCols * int4_rows::kBlockBytes;
      columns.set_groups(j, row + int4_rows::code_bytes(rows.cols) + col / kGroup * sizeof(uint32_t),
                         count / kGroup);
    }
  }
};

// Partial sums of kOutputs × kRows outputs from lane `lane` on.
template <size_t kWidth, size_t kOutputs, size_t kRows>
SERVAL_INLINE void load_sums(const Lanes* lanes, size_t lane,
                             typename Vector<kWidth>::Floats (&even)[kOutputs][kRows],
                             typename Vector<kWidth>::Floats (&odd)[kOutputs][kRows]) {
  for (size_t j = 0; j < kOutputs; ++j) {
    for (size_t r = 0; r < kRows; ++r) {
      std::memcpy(&even[j][r], lanes[j * kRowsOfBlock + r] + lane, sizeof even[j][r]);
      std::memcpy(&odd[j][r], lanes[j * kRowsOfBlock + r] + kHalf + lane, sizeof odd[j][r]);
    }
  }
}
template <size_t kWidth, size_t kOutputs, size_t kRows>
SERVAL_INLINE void store_sums(const typename Vector<kWidth>::Floats (&even)[kOutputs][kRows],
                              const typename Vector<kWidth>::Floats (&odd)[kOutputs][kRows], size_t lane,
                              Lanes* lanes) {
  for (size_t j = 0; j < kOutputs; ++j) {
    for (size_t r = 0; r < kRows; ++r) {
      std::memcpy(lanes[j * kRowsOfBlock + r] + lane, &even[j][r], sizeof even[j][r]);
      std::memcpy(lanes[j * kRowsOfBlock + r] + kHalf + lane, &odd[j][r], sizeof odd[j][r]);
    }
  }
}

// Adds the products of `cols` columns, a multiple of 32, to sums that start at 0 if `begins`; x has its
// columns in the order of matvec_row().
template <size_t kWidth, size_t kOutputs, size_t kRows, class Columns>
SERVAL_INLINE void add_products(const Columns& weights, const float* x, size_t x_stride, size_t cols,
                                bool begins, Lanes* lanes) {
  using Floats = typename Vector<kWidth>::Floats;
  for (size_t lane = 0; lane < kHalf; lane += kWidth) {
    Floats even[kOutputs][kRows] = {}, odd[kOutputs][kRows] = {};
    if (!begins) load_sums<kWidth>(lanes, lane, even, odd);
    for (size_t k = 0; k < cols; k += kMatvecLanes) {
      for (size_t j = 0; j < kOutputs; ++j) {
        Floats w_even, w_odd;
        weights.template load<kWidth>(j, k, lane, w_even, w_odd);
        for (size_t r = 0; r < kRows; ++r) {
          Floats x_even, x_odd;
          std::memcpy(&x_even, x + r * x_stride + k + lane, sizeof x_even);
          std::memcpy(&x_odd, x + r * x_stride + k + kHalf + lane, sizeof x_odd);
          even[j][r] += w_even * x_even;
          odd[j][r] += w_odd * x_odd;
        }
      }
    }
    store_sums<kWidth>(even, odd, lane, lanes);
  }
}

// sums += factor × terms, rounded once. The compiler fuses the two where the CPU can.
template <size_t kWidth>
SERVAL_INLINE void add_fused(const typename Vector<kWidth>::Floats& terms, float factor,
                             typename Vector<kWidth>::Floats& sums) {
  if constexpr (kWidth > 4) {
    sums += terms * factor;
    return;
  }
#if SERVAL_PICKS_CPU
  // Products are exact in double. Sums are rounded to the neighbour whose last bit is set if they are inexact
  // ("round to odd"), so that rounding them again rounds once.
  typedef double Doubles __attribute__((vector_size(kWidth * sizeof(double))));
  typedef int64_t Longs __attribute__((vector_size(kWidth * sizeof(int64_t))));
  const Doubles product = __builtin_convertvector(terms, Doubles) * static_cast<double>(factor);
  const Doubles before = __builtin_convertvector(sums, Doubles), sum = product + before;
  const Doubles of_before = sum - product;
  const Doubles error = (product - (sum - of_before)) + (before - of_before);  // the sum is sum + error
  Longs bits, sign;
  std::memcpy(&bits, &sum, sizeof bits);
  std::memcpy(&sign, &error, sizeof sign);
  const Longs even_and_inexact = ((bits & 1) == 0) & (error != 0);
  bits += even_and_inexact & (((bits ^ sign) < 0 ? Longs{} - 1 : Longs{} + 1));
  Doubles odd;
  std::memcpy(&odd, &bits, sizeof odd);
  sums = __builtin_convertvector(odd, typename Vector<kWidth>::Floats);
#else
  for (size_t i = 0; i < kWidth; ++i) sums[i] = __builtin_fmaf(terms[i], factor, sums[i]);
#endif
}

// Adds up the activations of a group.
template <size_t kWidth, size_t kSteps>
SERVAL_INLINE void add_up(const float* x, typename Vector<kWidth>::Floats& even,
                          typename Vector<kWidth>::Floats& odd) {
  even = odd = typename Vector<kWidth>::Floats{};
  for (size_t step = 0; step < kSteps; ++step) {
    typename Vector<kWidth>::Floats x_even, x_odd;
    std::memcpy(&x_even, x + step * kMatvecLanes, sizeof x_even);
    std::memcpy(&x_odd, x + step * kMatvecLanes + kHalf, sizeof x_odd);
    even += x_even;
    odd += x_odd;
  }
}

// As add_products(), group by group, for kOutputs of the columns' outputs from output `first` on.
template <size_t kWidth, size_t kOutputs, size_t kRows, uint32_t kGroup, size_t kAll>
SERVAL_INLINE void add_groups(const Int4Columns<kGroup, kAll>& weights, size_t first, const float* x,
                              size_t x_stride, size_t cols, bool begins, Lanes* lanes) {
  using Floats = typename Vector<kWidth>::Floats;
  constexpr size_t kSteps = kGroup / kMatvecLanes;
  for (size_t lane = 0; lane < kHalf; lane += kWidth) {
    Floats even[kOutputs][kRows] = {}, odd[kOutputs][kRows] = {};
    if (!begins) load_sums<kWidth>(lanes, lane, even, odd);
    for (size_t n = 0; n * kGroup < cols; ++n) {
      const size_t k = n * kGroup;
      Floats of_even[kOutputs][kRows] = {}, of_odd[kOutputs][kRows] = {};
      typename Vector<kWidth>::Words words[kOutputs];
      for (size_t j = 0; j < kOutputs; ++j) {
        std::memcpy(&words[j],
                    weights.codes[first + j] + k / int4_rows::kBlockCols * int4_rows::kBlockBytes +
                        lane * sizeof(uint32_t),
                    sizeof words[j]);
        words[j] >>= static_cast<uint32_t>(k % int4_rows::kBlockCols / kMatvecLanes * 8);
      }
      for (size_t step = 0; step < kSteps; ++step) {
        for (size_t j = 0; j < kOutputs; ++j) {
          const Int4Table& table = kCodesLess.of[weights.zeros[first + j][n]];
          const auto shift = static_cast<uint32_t>(8 * step);
          Floats w_even, w_odd;
          look_up<kWidth>(table, words[j] >> shift, w_even);
          look_up<kWidth>(table, words[j] >> (shift + 4), w_odd);
          for (size_t r = 0; r < kRows; ++r) {
            const float* from = x + r * x_stride + k + step * kMatvecLanes + lane;
            Floats x_even, x_odd;
            std::memcpy(&x_even, from, sizeof x_even);
            std::memcpy(&x_odd, from + kHalf, sizeof x_odd);
            of_even[j][r] += w_even * x_even;
            of_odd[j][r] += w_odd * x_odd;
          }
        }
      }
      for (size_t j = 0; j < kOutputs; ++j) {
        for (size_t r = 0; r < kRows; ++r) {
          add_fused<kWidth>(of_even[j][r], weights.scales[first + j][n], even[j][r]);
          add_fused<kWidth>(of_odd[j][r], weights.scales[first + j][n], odd[j][r]);
        }
      }
      if (!weights.has_minima) [[likely]]
        continue;
      for (size_t r = 0; r < kRows; ++r) {
        Floats x_even, x_odd;
        add_up<kWidth, kSteps>(x + r * x_stride + k + lane, x_even, x_odd);
        for (size_t j = 0; j < kOutputs; ++j) {
          add_fused<kWidth>(x_even, weights.minima[first + j][n], even[j][r]);
          add_fused<kWidth>(x_odd, weights.minima[first + j][n], odd[j][r]);
        }
      }
    }
    store_sums<kWidth>(even, odd, lane, lanes);
  }
}
// With several rows, two outputs are computed at a time: each pair takes four registers for sums.
template <size_t kWidth, size_t kOutputs, size_t kRows, uint32_t kGroup>
SERVAL_INLINE void add_products(const Int4Columns<kGroup, kOutputs>& weights, const float* x, size_t x_stride,
                                size_t cols, bool begins, Lanes* lanes) {
  constexpr size_t kAtOnce = kRows > 1 && kOutputs > 2 ? 2 : kOutputs;
  for (size_t first = 0; first < kOutputs; first += kAtOnce)
    add_groups<kWidth, kAtOnce, kRows>(weights, first, x, x_stride, cols, begins,
                                       lanes + first * kRowsOfBlock);
}

// add_products() for up to kRowsOfBlock rows.
template <size_t kWidth, size_t kOutputs, class Columns>
SERVAL_INLINE void add_rows(const Columns& weights, const float* x, size_t x_stride, size_t cols, size_t rows,
                            bool begins, Lanes* lanes) {
  for (size_t r = 0; r < rows;) {
    const size_t left = rows - r;
    const float* from = x + r * x_stride;
    if (left == kRowsAtOnce || left > kRowsAtOnce + 1) {
      add_products<kWidth, kOutputs, kRowsAtOnce>(weights, from, x_stride, cols, begins, lanes + r);
      r += kRowsAtOnce;
    } else if (left > 1) {
      add_products<kWidth, kOutputs, 2>(weights, from, x_stride, cols, begins, lanes + r);
      r += 2;
    } else {
      add_products<kWidth, kOutputs, 1>(weights, from, x_stride, cols, begins, lanes + r);
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
  add_rows<kWidth, kOutputs>(Bf16Columns{padded, kMatvecLanes}, x + done, matvec_cols(cols), kMatvecLanes,
                             rows, done == 0, lanes);
}

// Outputs [output, output + kOutputs).
template <size_t kWidth, size_t kOutputs, class Weights>
SERVAL_INLINE void multiply_block(const Weights& weights, size_t output, size_t cols, const float* x,
                                  size_t rows, float* out, size_t out_stride) {
  Lanes lanes[kOutputs * kRowsOfBlock];
  typename Weights::template Columns<kOutputs> columns;
  const size_t whole = cols / kMatvecLanes * kMatvecLanes;
  for (size_t k = 0; k < whole; k += kColsOfBlock) {
    const size_t count = whole - k < kColsOfBlock ? whole - k : kColsOfBlock;
    weights.template columns<kWidth, kOutputs>(output, k, count, columns);
    add_rows<kWidth, kOutputs>(columns, x + k, matvec_cols(cols), count, rows, k == 0, lanes);
  }
  if constexpr (std::is_same_v<Weights, Bf16Weights>) {
    const size_t stride = weights.rows.stride;
    if (whole < cols)
      add_last_cols<kWidth, kOutputs>({weights.rows.data + output * stride, stride}, cols, whole, x, rows,
                                      lanes);
  }
  for (size_t j = 0; j < kOutputs; ++j) {
    for (size_t r = 0; r < rows; ++r) out[r * out_stride + j] = fold(lanes[j * kRowsOfBlock + r]);
  }
}

template <size_t kWidth, size_t kOutputs, class Weights>
SERVAL_INLINE void multiply_outputs(const Weights& weights, size_t output, size_t cols, const float* x,
                                    size_t num_rows, float* out, size_t out_stride) {
  for (size_t r = 0; r < num_rows; r += kRowsOfBlock) {
    const size_t rows = num_rows - r < kRowsOfBlock ? num_rows - r : kRowsOfBlock;
    multiply_block<kWidth, kOutputs>(weights, output, cols, x + r * matvec_cols(cols), rows,
                                     out + r * out_stride, out_stride);
  }
}

template <size_t kWidth, class Weights>
SERVAL_INLINE void multiply(const Weights& weights, size_t num_outputs, size_t cols, const float* x,
                            size_t num_rows, float* out, size_t out_stride) {
  constexpr size_t kOutputs = kOutputsAtOnce<kWidth>;
  size_t j = 0;
  for (; j + kOutputs <= num_outputs; j += kOutputs)
    multiply_outputs<kWidth, kOutputs>(weights, j, cols, x, num_rows, out + j, out_stride);
  for (; j < num_outputs; ++j)
    multiply_outputs<kWidth, 1>(weights, j, cols, x, num_rows, out + j, out_stride);
}

template <class Weights>
using Multiply = void (*)(const Weights&, size_t, size_t, const float*, size_t, float*, size_t);

template <class Weights>
void multiply_by_4(const Weights& weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
                   float* out, size_t out_stride) {
  multiply<4>(weights, num_outputs, cols, x, num_rows, out, out_stride);
}

#if SERVAL_PICKS_CPU
template <class Weights>
__attribute__((target("arch=x86-64-v3"))) void multiply_by_8(const Weights& weights, size_t num_outputs,
                                                             size_t cols, const float* x, size_t num_rows,
                                                             float* out, size_t out_stride) {
  multiply<8>(weights, num_outputs, cols, x, num_rows, out, out_stride);
}
template <class Weights>
__attribute__((target("arch=x86-64-v4"))) void multiply_by_16(const Weights& weights, size_t num_outputs,
                                                              size_t cols, const float* x, size_t num_rows,
                                                              float* out, size_t out_stride) {
  multiply<16>(weights, num_outputs, cols, x, num_rows, out, out_stride);
}
template <class Weights>
Multiply<Weights> pick_multiply() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return multiply_by_16<Weights>;
  return __builtin_cpu_supports("x86-64-v3") ? multiply_by_8<Weights> : multiply_by_4<Weights>;
}
#else
template <class Weights>
Multiply<Weights> pick_multiply() {
  return multiply_by_4<Weights>;
}
#endif

template <class Element, class Widen>
void widen_row(const Element* row, size_t cols, float* out, Widen widen) {
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

template <uint32_t kGroup>
void multiply_int4(const Int4WeightRows& weights, size_t num_outputs, size_t cols, const float* x,
                   size_t num_rows, float* out, size_t out_stride) {
  static const auto picked = pick_multiply<Int4Weights<kGroup>>();
  picked({weights}, num_outputs, cols, x, num_rows, out, out_stride);
}

}  // namespace

void matvec_row(const uint16_t* row, size_t cols, float* out) {
  widen_row(row, cols, out, [](uint16_t bits) { return bf16_to_float(bits); });
}

void matvec_row_of_fp16(const uint16_t* row, size_t cols, float* out) {
  widen_row(row, cols, out, [](uint16_t bits) { return fp16_to_float(bits); });
}

void matvec_row_of_e4m3(const uint8_t* codes, size_t cols, float* out) {
  widen_row(codes, cols, out, [](uint8_t code) { return kE4M3Values[code]; });
}

void matvec(WeightRows weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows, float* out,
            size_t out_stride) {
  static const auto picked = pick_multiply<Bf16Weights>();
  picked({weights}, num_outputs, cols, x, num_rows, out, out_stride);
}

void matvec(OrderedWeightRows weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
            float* out, size_t out_stride) {
  static const auto picked = pick_multiply<OrderedWeights>();
  picked({weights}, num_outputs, cols, x, num_rows, out, out_stride);
}

void matvec(const Int4WeightRows& weights, size_t num_outputs, size_t cols, const float* x, size_t num_rows,
            float* out, size_t out_stride) {
  const auto multiply = weights.group == 32   ? multiply_int4<32>
                        : weights.group == 64 ? multiply_int4<64>
                                              : multiply_int4<128>;
  multiply(weights, num_outputs, cols, x, num_rows, out, out_stride);
}

}  // namespace serval
