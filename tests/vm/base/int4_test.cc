// Values of 4-bit codes are those of the packages that write them, rounded once to fp16, in every group.
#include "vm/base/int4.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

constexpr uint16_t kNegativeZero = 0x8000, kInfinity = 0x7C00, kSmallestNormal = 0x0400;

uint32_t bits_of(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

float rounded(float value) {
  float out = 0;
  int4::round_to_fp16<float, uint32_t>(value, out);
  return out;
}

// The nearest fp16, ties to even, found by trying the neighbours of a guess.
float nearest_fp16(double exact) {
  const uint16_t guess = float_to_fp16(static_cast<float>(exact));
  uint16_t best = guess;
  for (const int step : {-1, 1}) {
    const auto other = static_cast<uint16_t>(guess + step);
    if ((other & 0x7C00) == kInfinity || (other ^ guess) >> 15 != 0) continue;
    const double off = std::fabs(fp16_to_float(other) - exact),
                 least = std::fabs(fp16_to_float(best) - exact);
    if (off < least || (off == least && other % 2 == 0)) best = other;
  }
  return fp16_to_float(best);
}

// All scales: subnormal and negative ones, −0 and the largest.
TEST(Int4, WithAZeroPointIsTheProductRoundedToFp16) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto scale = static_cast<uint16_t>(bits);
    if ((scale & kInfinity) == kInfinity) continue;
    const uint32_t zero = bits % (int4::kLargestZeroPoint + 1);
    for (const uint32_t zero_point : {0U, zero, 8U, 15U, 16U}) {
      const uint32_t word = int4::word_with_zero_point(scale, zero_point);
      ASSERT_TRUE(int4::has_zero_point(word));
      ASSERT_EQ(int4::zero_point_of(word), zero_point);
      ASSERT_EQ(int4::scale_of(word), scale);
      for (uint32_t code = 0; code < int4::kCodes; ++code) {
        const float product =
            fp16_to_float(scale) * static_cast<float>(static_cast<int>(code) - static_cast<int>(zero_point));
        ASSERT_EQ(bits_of(int4::value_of(word, code)), bits_of(fp16_to_float(float_to_fp16(product))))
            << scale << " × (" << code << " − " << zero_point << ")";
      }
    }
  }
}

TEST(Int4, WithAMinimumIsRoundedOnce) {
  std::mt19937 random(1);
  std::vector<uint16_t> edges = {0,      kNegativeZero, 1,      0x8001, 0x03FF, kSmallestNormal,
                                 0x8400, 0x3C00,        0x7BFF, 0xFBFF, 0x6400, 0x6410};
  for (int round = 0; round < 200'000; ++round) {
    const auto pick = [&] {
      return random() % 4 == 0 ? edges[random() % edges.size()] : static_cast<uint16_t>(random());
    };
    uint16_t scale = pick(), minimum = pick();
    if ((scale & kInfinity) == kInfinity) scale = 0x3555;
    if ((minimum & kInfinity) == kInfinity) minimum = 0xB001;
    const uint32_t word = int4::word_with_minimum(scale, minimum);
    ASSERT_FALSE(int4::has_zero_point(word));
    ASSERT_EQ(int4::minimum_of(word), minimum);
    const uint32_t code = random() % int4::kCodes;
    const double exact = double{fp16_to_float(scale)} * code + double{fp16_to_float(minimum)};
    const float found = int4::value_of(word, code);
    if (std::fabs(exact) >= 65'520) {
      ASSERT_TRUE(std::isinf(found));
      continue;
    }
    ASSERT_EQ(found, nearest_fp16(exact)) << scale << " × " << code << " + " << minimum;
  }
}

float odd_sum(float a, float b) {
  float sum = 0;
  int4::add_in_fp16<float, uint32_t>(a, b, sum);
  return sum;
}

// A sum just above the middle of two fp16, which fp32 rounds to the middle.
TEST(Int4, DoesNotRoundASumTwice) {
  const uint16_t one_ulp_and_a_half = float_to_fp16(1 + 0x1p-10F);  // 1 + ulp
  const uint32_t word = int4::word_with_minimum(0x0001, one_ulp_and_a_half);
  EXPECT_EQ(int4::value_of(word, 15), 1 + 0x1p-10F);
  // 2048 + 2 has a unit of 2: 2049 + 2^-24 rounds up, 2049 to even.
  EXPECT_EQ(odd_sum(2049, 0), 2048.0F);
  EXPECT_EQ(odd_sum(2049, 0x1p-24F), 2050.0F);
  EXPECT_EQ(odd_sum(-2049, -0x1p-24F), -2050.0F);
  EXPECT_EQ(odd_sum(2051, -0x1p-24F), 2050.0F);
}

TEST(Int4, RoundsFloatsAsTheConversionDoes) {
  std::mt19937 random(2);
  for (int round = 0; round < 1'000'000; ++round) {
    const float value = __builtin_bit_cast(float, static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(bits_of(rounded(value)), bits_of(fp16_to_float(float_to_fp16(value)))) << value;
  }
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Int4, AMinimumThatIsNaNIsNoZeroPoint) {
  for (const uint16_t nan : {0x7C01, 0x7C05, 0x7E00, 0x7FFF, 0xFC02}) {
    const uint32_t word = int4::word_with_minimum(0x3C00, nan);
    EXPECT_FALSE(int4::has_zero_point(word));
    EXPECT_TRUE(std::isnan(int4::value_of(word, 3)));
  }
}

}  // namespace
}  // namespace serval
