#include "vm/base/bf16.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace serval {
namespace {

constexpr uint32_t kPatterns = 1 << 16;

TEST(Bf16, RoundTripsEveryPattern) {
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    const uint32_t quiet = std::isnan(value) ? 0x40 : 0;
    ASSERT_EQ(float_to_bf16(value), bits | quiet);
  }
}

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(float_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bf16(1.0F + 0x1p-8F), 0x3F80);             // a tie, down to even
  EXPECT_EQ(float_to_bf16(1.0F + 0x3p-8F), 0x3F82);             // a tie, up to even
  EXPECT_EQ(float_to_bf16(1.0F + 0x1p-8F + 0x1p-20F), 0x3F81);  // just above the tie
  EXPECT_EQ(float_to_bf16(1.0F + 0x1p-8F - 0x1p-20F), 0x3F80);  // just below it
  EXPECT_EQ(float_to_bf16(-1.0F - 0x3p-8F), 0xBF82);
}

TEST(Bf16, OverflowsToInfinity) {
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xFF80);
}

TEST(Bf16, KeepsNanAndMakesItQuiet) {
  EXPECT_EQ(float_to_bf16(__builtin_bit_cast(float, 0x7F800001U)), 0x7FC0);
  EXPECT_EQ(float_to_bf16(__builtin_bit_cast(float, 0xFFFFFFFFU)), 0xFFFF);
}

TEST(Bf16, KeepsSignedZeroAndSubnormals) {
  EXPECT_EQ(float_to_bf16(-0.0F), 0x8000);
  EXPECT_EQ(float_to_bf16(0x1p-133F), 0x0001);
}

TEST(Fp16, EveryPatternHasItsIeeeValue) {
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    const float value = fp16_to_float(static_cast<uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10 & 0x1F);
    const int mantissa = static_cast<int>(bits & 0x3FF);
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(value), mantissa != 0);
      ASSERT_EQ(std::isinf(value), mantissa == 0);
      continue;
    }
    const int significand = exponent == 0 ? mantissa : mantissa + 1024;
    ASSERT_EQ(std::fabs(value), std::ldexp(significand, std::max(exponent, 1) - 25));
  }
}

TEST(Fp16, RoundTripsEveryPattern) {
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    const float value = fp16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(fp16_to_float(float_to_fp16(value))));
    } else {
      ASSERT_EQ(float_to_fp16(value), bits);
    }
  }
}

TEST(Fp16, RoundsToNearestAndTiesToEven) {
  constexpr uint16_t kInfinity = 0x7C00;
  for (uint16_t bits = 0; bits < kInfinity; ++bits) {
    // The value after the largest would be 65,536: it becomes infinity.
    const float low = fp16_to_float(bits), high = bits + 1 == kInfinity ? 65536 : fp16_to_float(bits + 1);
    const float tie = (low + high) / 2;
    ASSERT_EQ(float_to_fp16(tie), bits % 2 == 0 ? bits : bits + 1) << tie;
    ASSERT_EQ(float_to_fp16(std::nextafter(tie, low)), bits) << tie;
    ASSERT_EQ(float_to_fp16(-std::nextafter(tie, high)), 0x8000 | (bits + 1)) << tie;
  }
}

}  // namespace
}  // namespace serval
