// e4m3 is rounded as the GPU's conversion rounds: to nearest, ties to even.
#include "vm/base/e4m3.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace serval {
namespace {

constexpr uint32_t kCodes = 256;
constexpr uint8_t kLargest = 0x7E, kNan = 0x7F, kSign = 0x80;

TEST(E4M3, RoundTripsEveryCode) {
  for (uint32_t code = 0; code < kCodes; ++code) {
    if ((code & kNan) == kNan) continue;
    ASSERT_EQ(float_to_e4m3(e4m3_to_float(static_cast<uint8_t>(code))), code);
  }
  EXPECT_EQ(float_to_e4m3(std::numeric_limits<float>::quiet_NaN()) & kNan, kNan);
}

// Between two neighbouring values: the tie, and the floats just below and above it.
TEST(E4M3, RoundsToNearestAndTiesToEven) {
  for (uint8_t code = 0; code < kLargest; ++code) {
    const float low = e4m3_to_float(code), high = e4m3_to_float(static_cast<uint8_t>(code + 1));
    const float tie = (low + high) / 2;
    for (const uint8_t sign : {uint8_t{0}, kSign}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      const auto rounded = [&](float value) { return float_to_e4m3(factor * value) ^ sign; };
      ASSERT_EQ(rounded(tie), code % 2 == 0 ? code : code + 1) << tie;
      ASSERT_EQ(rounded(std::nextafter(tie, low)), code) << tie;
      ASSERT_EQ(rounded(std::nextafter(tie, high)), code + 1) << tie;
    }
  }
}

TEST(E4M3, SaturatesBeyondItsLargestValue) {
  for (const float value : {448.0F, 460.0F, 1e30F, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(float_to_e4m3(value), kLargest);
    EXPECT_EQ(float_to_e4m3(-value), kSign | kLargest);
  }
}

}  // namespace
}  // namespace serval
