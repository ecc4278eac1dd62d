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
  quantise_rows(weights.data(), kRows, kCols, codes.data());
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

TEST(QuantiseRows, MakesTheLargestElementOfARowTheLargestCode) {
  std::vector<uint16_t> weights = random_bf16(kRows * kCols, 3, 1);
  std::fill_n(weights.begin(), kCols, uint16_t{0});
  const uint64_t row_bytes = e4m3_rows::row_bytes(kCols);
  std::vector<uint8_t> codes(kRows * row_bytes);
  quantise_rows(weights.data(), kRows, kCols, codes.data());
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
