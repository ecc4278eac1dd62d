// Products of weights of each storage type on the host.
#include "instructions/common/multiply_weights.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/common/matvec.h"
#include "models/checkpoint/quantise_rows.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/layout/int4_rows.h"

namespace serval {
namespace {

constexpr size_t kRows = 21, kCols = 208, kPassRows = 3;

std::vector<uint16_t> random_bf16(size_t count, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<uint16_t> out(count);
  for (uint16_t& bits : out) bits = float_to_bf16(normal(random));
  return out;
}

TEST(MultiplyWeights, OfE4M3AreSumsOfCodesTimesTheRowsScale) {
  std::vector<uint16_t> weights = random_bf16(kRows * kCols, 1, 0.02F);
  std::fill_n(weights.begin() + 5 * kCols, kCols, uint16_t{0});  // a row of zeros
  std::vector<uint8_t> codes(kRows * e4m3_rows::row_bytes(kCols));
  quantise_rows(DType::kE4M3, weights.data(), kRows, kCols, codes.data());
  Program program;
  program.tensors = {{.name = "w", .rows = kRows, .cols = kCols, .dtype = DType::kE4M3}};
  HostMemory memory(program);
  memory.bind({0}, codes.data());
  // Rows 2 to 19 and columns 32 to 175; activations in fp16, which have more bits than bf16.
  constexpr size_t kFirstRow = 2, kCount = 18, kFirstCol = 32, kSomeCols = 144;
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 3);
  std::vector<uint16_t> fp16(kPassRows * kSomeCols);
  for (uint16_t& bits : fp16) bits = float_to_fp16(normal(random));
  std::vector<float> x(kPassRows * matvec_cols(kSomeCols));
  for (size_t r = 0; r < kPassRows; ++r)
    matvec_row_of_fp16(fp16.data() + r * kSomeCols, kSomeCols, x.data() + r * matvec_cols(kSomeCols));
  std::vector<float> out(kPassRows * kCount);
  multiply_weights(memory, {{0}, kFirstRow, kCount, kCols, kFirstCol, kSomeCols}, x.data(), kPassRows,
                   out.data(), kCount);
  for (size_t r = 0; r < kPassRows; ++r) {
    for (size_t j = 0; j < kCount; ++j) {
      const uint8_t* row = codes.data() + (kFirstRow + j) * e4m3_rows::row_bytes(kCols);
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < kSomeCols; ++k) {
        const double term =
            double{e4m3_to_float(row[kFirstCol + k])} * fp16_to_float(fp16[r * kSomeCols + k]);
        sum += term;
        magnitude += std::fabs(term);
      }
      const double scale = e4m3_rows::scale_of(row, kCols);
      ASSERT_NEAR(out[r * kCount + j], sum * scale, magnitude * scale * 1e-6) << r << ", " << j;
    }
  }
}

// Rows of codes, with zero points and minima in turn, and with scales that are subnormal, 0 and negative.
std::vector<uint8_t> random_int4(uint32_t group, size_t rows, size_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.01F);
  const uint64_t row_bytes = int4_rows::row_bytes(cols, group);
  std::vector<uint8_t> out(rows * row_bytes);
  for (size_t r = 0; r < rows; ++r) {
    uint8_t* row = out.data() + r * row_bytes;
    for (size_t i = 0; i < cols / 2; ++i) row[i] = static_cast<uint8_t>(random());
    for (size_t n = 0; n < cols / group; ++n) {
      const uint16_t scales[] = {float_to_fp16(normal(random)), float_to_fp16(normal(random)), 0, 0x8003,
                                 0x0200};
      const uint16_t scale = scales[random() % std::size(scales)], minimum = float_to_fp16(normal(random));
      int4_rows::set_word(row, cols, n,
                          n % 2 == 0 ? int4::word_with_zero_point(scale, random() % 17)
                                     : int4::word_with_minimum(scale, minimum));
    }
    int4_rows::set_scale(row, cols, group, std::ldexp(1.0F, static_cast<int>(random() % 9) - 4));
  }
  return out;
}

// Adds the group from column `first` on to the partial sums of matvec(): the sum of codes less the zero point
// times activations, times the scale; then the minimum times the sum of activations. Both are fused with the
// addition.
void add_group(const uint8_t* row, size_t cols, uint32_t group, size_t first, const uint16_t* fp16,
               float (&partials)[kMatvecLanes]) {
  const uint32_t word = int4_rows::word_of(row, cols, first / group);
  const bool has_zero = int4::has_zero_point(word);
  const uint32_t zero = has_zero ? int4::zero_point_of(word) : 0;
  for (size_t lane = 0; lane < kMatvecLanes; ++lane) {
    float sum = 0, of_activations = 0;
    for (size_t k = lane; k < group; k += kMatvecLanes) {
      const auto code = static_cast<int32_t>(int4_rows::code_of(row, first + k) - zero);
      sum += static_cast<float>(code) * fp16_to_float(fp16[k]);
      of_activations += fp16_to_float(fp16[k]);
    }
    partials[lane] = std::fma(sum, fp16_to_float(int4::scale_of(word)), partials[lane]);
    if (!has_zero)
      partials[lane] = std::fma(of_activations, fp16_to_float(int4::minimum_of(word)), partials[lane]);
  }
}

// Columns [first, first + count) of a row of weights, and a row of activations for them.
struct Int4Columns {
  const uint8_t* row;
  size_t cols;  // of the row
  uint32_t group;
  size_t first, count;
  const uint16_t* fp16;
};
// Expects products to be partial sums of matvec(), added up as there, times the scale of the row.
// add(columns, partials) adds to the partial sums.
template <class Add>
void expect_int4_products(Order order, size_t pass_rows, uint32_t seed, Add&& add) {
  for (const DType dtype : {DType::kInt4G32, DType::kInt4G64, DType::kInt4G128}) {
    const uint32_t group = group_of(dtype);
    for (const size_t cols : {size_t{128}, size_t{384}, size_t{2176}}) {
      constexpr size_t kAllRows = 23, kFirst = 2, kCount = 19;
      const std::vector<uint8_t> rows = random_int4(group, kAllRows, cols, seed);
      Program program;
      program.order = order;
      program.tensors = {{.name = "w", .rows = kAllRows, .cols = cols, .dtype = dtype}};
      HostMemory memory(program);
      memory.bind({0}, const_cast<uint8_t*>(rows.data()));
      const size_t first_col = cols > 2048 ? 1024 : 0, some_cols = cols - first_col;
      std::mt19937 random(seed + 1);
      std::normal_distribution<float> normal(0, 3);
      std::vector<uint16_t> fp16(pass_rows * some_cols);
      for (uint16_t& bits : fp16) bits = float_to_fp16(normal(random));
      std::vector<float> x(pass_rows * matvec_cols(some_cols)), out(pass_rows * kCount);
      for (size_t r = 0; r < pass_rows; ++r)
        matvec_row_of_fp16(fp16.data() + r * some_cols, some_cols, x.data() + r * matvec_cols(some_cols));
      multiply_weights(memory, {{0}, kFirst, kCount, cols, first_col, some_cols}, x.data(), pass_rows,
                       out.data(), kCount);
      for (size_t r = 0; r < pass_rows; ++r) {
        for (size_t j = 0; j < kCount; ++j) {
          const uint8_t* row = rows.data() + (kFirst + j) * int4_rows::row_bytes(cols, group);
          float partials[kMatvecLanes] = {};
          add(Int4Columns{row, cols, group, first_col, some_cols, fp16.data() + r * some_cols}, partials);
          for (size_t half = kMatvecLanes / 2; half > 0; half /= 2)
            for (size_t i = 0; i < half; ++i) partials[i] += partials[i + half];
          ASSERT_EQ(out[r * kCount + j], partials[0] * int4_rows::scale_of(row, cols, group))
              << group << ", " << cols << ": " << r << ", " << j;
        }
      }
    }
  }
}

// In programs of tiles, values are rounded to fp16 before they are multiplied.
TEST(MultiplyWeights, OfInt4InTilesAreSumsOfValuesInFp16) {
  expect_int4_products(Order::kTile, kPassRows, 6, [](const Int4Columns& c, float(&partials)[kMatvecLanes]) {
    for (size_t k = 0; k < c.count; ++k) {
      const uint32_t word = int4_rows::word_of(c.row, c.cols, (c.first + k) / c.group);
      partials[k % kMatvecLanes] +=
          int4::value_in_fp16(word, int4_rows::code_of(c.row, c.first + k)) * fp16_to_float(c.fp16[k]);
    }
  });
}

// Sums are those of matvec() in every group, whatever the number of rows of the pass and of outputs, so that
// they do not depend on the CPU's registers.
TEST(MultiplyWeights, OfInt4AreSumsOfGroupsTimesTheirScales) {
  for (const size_t pass_rows : {1, 3, 18}) {
    expect_int4_products(Order::kVector, pass_rows, 4,
                         [](const Int4Columns& c, float(&partials)[kMatvecLanes]) {
                           for (size_t k = 0; k < c.count; k += c.group)
                             add_group(c.row, c.cols, c.group, c.first + k, c.fp16 + k, partials);
                         });
  }
}

// A value is at most half a step away, and half a step more where the zero point is rounded and a code would
// be beyond the last; fp16 adds little. 0 stays 0.
TEST(QuantiseRows, RoundsTo4BitsWithinAStep) {
  constexpr size_t kWidth = 384;
  std::vector<uint16_t> weights = random_bf16(kRows * kWidth, 6, 0.02F);
  std::fill_n(weights.begin() + 5 * kWidth, kWidth, uint16_t{0});                   // a row of zeros
  std::fill_n(weights.begin() + 6 * kWidth, kWidth / 2, uint16_t{0x3C23});          // groups of one value
  for (size_t col = 0; col < kWidth; ++col) weights[7 * kWidth + col] &= 0x7FFF;    // positive only
  for (size_t col = 0; col < kWidth; col += 3) weights[8 * kWidth + col] = 0x0003;  // subnormal
  for (const DType dtype : {DType::kInt4G32, DType::kInt4G64, DType::kInt4G128}) {
    const uint32_t group = group_of(dtype);
    const uint64_t row_bytes = int4_rows::row_bytes(kWidth, group);
    std::vector<uint8_t> codes(kRows * row_bytes);
    quantise_rows(dtype, weights.data(), kRows, kWidth, codes.data());
    for (size_t r = 0; r < kRows; ++r) {
      const uint8_t* row = codes.data() + r * row_bytes;
      const float of_row = int4_rows::scale_of(row, kWidth, group);
      int exponent = 0;
      ASSERT_EQ(std::frexp(of_row, &exponent), 0.5F);  // a power of two
      for (size_t col = 0; col < kWidth; ++col) {
        const uint32_t word = int4_rows::word_of(row, kWidth, col / group);
        ASSERT_TRUE(int4::has_zero_point(word));
        const float value = int4::value_of(word, int4_rows::code_of(row, col)) * of_row;
        const float step = fp16_to_float(int4::scale_of(word)) * of_row;
        const float element = bf16_to_float(weights[r * kWidth + col]);
        ASSERT_LE(std::fabs(value - element), step * 1.02F + of_row * 0x1p-25F) << r << ", " << col;
        ASSERT_EQ(int4::value_of(word, int4::zero_point_of(word)), 0.0F);
      }
    }
  }
}

TEST(QuantiseRows, MakesTheLargestElementOfARowTheLargestCode) {
  std::vector<uint16_t> weights = random_bf16(kRows * kCols, 3, 1);
  std::fill_n(weights.begin(), kCols, uint16_t{0});
  const uint64_t row_bytes = e4m3_rows::row_bytes(kCols);
  std::vector<uint8_t> codes(kRows * row_bytes);
  quantise_rows(DType::kE4M3, weights.data(), kRows, kCols, codes.data());
  for (size_t row = 0; row < kRows; ++row) {
    const uint8_t* to = codes.data() + row * row_bytes;
    const float scale = e4m3_rows::scale_of(to, kCols);
    float largest = 0, largest_code = 0;
    for (size_t col = 0; col < kCols; ++col) {
      const float element = bf16_to_float(weights[row * kCols + col]), code = e4m3_to_float(to[col]);
      largest = std::max(largest, std::fabs(element));
      largest_code = std::max(largest_code, std::fabs(code));
      // The nearest code is at most half of the distance between two away: 1/16 of the value, or of 2^-6.
      ASSERT_LE(std::fabs(code - element / scale), std::max(std::fabs(code), 0x1p-6F) / 16)
          << row << ", " << col;
    }
    EXPECT_EQ(largest_code, row == 0 ? 0.0F : 448.0F);
    EXPECT_EQ(scale, row == 0 ? 1.0F : largest / 448);
  }
}

}  // namespace
}  // namespace serval
