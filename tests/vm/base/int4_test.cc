// Values of 4-bit codes are those of the packages that write them, before these round them to fp16.
#include "vm/base/int4.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

constexpr uint16_t kNegativeZero = 0x8000, kInfinity = 0x7C00, kSmallestNormal = 0x0400;

// All scales: subnormal and negative ones, −0 and the largest.
TEST(Int4, WithAZeroPointIsTheExactProduct) {
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
        const double product =
            double{fp16_to_float(scale)} * (static_cast<int>(code) - static_cast<int>(zero_point));
        ASSERT_EQ(int4::value_of(word, code), product)
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
    ASSERT_EQ(int4::value_of(word, code), static_cast<float>(exact))
        << scale << " × " << code << " + " << minimum;
  }
}

// The fp16 nearest to a number, ties to even: rounded to a multiple of the unit in its last place.
double nearest_fp16(double exact) {
  constexpr int kLeastExponent = -14, kFractionBits = 10;
  constexpr double kFirstOverflow = 65'520;
  if (std::fabs(exact) >= kFirstOverflow) return std::copysign(HUGE_VAL, exact);
  const int exponent = exact == 0 ? kLeastExponent : std::max(std::ilogb(exact), kLeastExponent);
  const double unit = std::ldexp(1.0, exponent - kFractionBits);
  return std::nearbyint(exact / unit) * unit;
}

// Codes whose exact values lie halfway between two fp16, and next to that, are among these.
TEST(Int4, TheValueInFp16IsRoundedOnce) {
  std::mt19937 random(2);
  uint32_t inexact = 0, overflows = 0;
  for (int round = 0; round < 400'000; ++round) {
    uint16_t scale = static_cast<uint16_t>(random()), minimum = static_cast<uint16_t>(random());
    // Every other time, numbers of about the same size.
    if (round % 2 == 0)
      minimum = static_cast<uint16_t>((minimum & 0x83FF) | ((scale & kInfinity) + (random() % 5 << 10)));
    if ((scale & kInfinity) == kInfinity) scale = 0x3555;
    if ((minimum & kInfinity) == kInfinity) minimum = 0xB001;
    const uint32_t code = random() % int4::kCodes, zero = random() % (int4::kLargestZeroPoint + 1);
    const double s = fp16_to_float(scale), m = fp16_to_float(minimum);
    const double with_minimum = s * code + m,
                 with_zero = s * (static_cast<int>(code) - static_cast<int>(zero));
    ASSERT_EQ(int4::value_in_fp16(int4::word_with_minimum(scale, minimum), code), nearest_fp16(with_minimum))
        << scale << " × " << code << " + " << minimum;
    ASSERT_EQ(int4::value_in_fp16(int4::word_with_zero_point(scale, zero), code), nearest_fp16(with_zero))
        << scale << " × (" << code << " − " << zero << ")";
    inexact += nearest_fp16(with_minimum) != with_minimum ? 1 : 0;
    overflows += std::isinf(nearest_fp16(with_zero)) ? 1 : 0;
  }
  EXPECT_GT(inexact, 10'000U);
  EXPECT_GT(overflows, 1'000U);
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
