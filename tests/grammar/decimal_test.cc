#include "engine/grammar/decimal.h"

#include "gtest/gtest.h"

namespace serval::grammar {
namespace {

Decimal decimal(const char* text) {
  return Decimal::of(text).value();
}

TEST(Decimal, IsExact) {
  EXPECT_EQ(decimal("1e3").plain(), "1000");
  EXPECT_EQ(decimal("-12.50").plain(), "-12.5");
  EXPECT_EQ(decimal("0.000").plain(), "0");
  EXPECT_EQ(decimal("-0"), decimal("0"));
  EXPECT_EQ(decimal("1.0"), decimal("10e-1"));
  EXPECT_EQ(decimal("123456789012345678901234567890").plain(), "123456789012345678901234567890");
  EXPECT_LT(decimal("-3"), decimal("-2.99"));
  EXPECT_LT(decimal("0.1"), decimal("0.10000000000000000001"));
  EXPECT_GT(decimal("2"), decimal("-100"));
  EXPECT_TRUE(decimal("1.5e1").is_integer());
  EXPECT_FALSE(decimal("15e-2").is_integer());
}

TEST(Decimal, RoundsDownAndUp) {
  const auto floor_of = [](const char* text, int places) {
    return Decimal(decimal(text).floor_of(places), -places).plain();
  };
  const auto ceil_of = [](const char* text, int places) {
    return Decimal(decimal(text).ceil_of(places), -places).plain();
  };
  EXPECT_EQ(floor_of("2.71", 1), "2.7");
  EXPECT_EQ(ceil_of("2.71", 1), "2.8");
  EXPECT_EQ(floor_of("-2.71", 1), "-2.8");
  EXPECT_EQ(ceil_of("-2.71", 1), "-2.7");
  EXPECT_EQ(ceil_of("-0.1", 0), "0");
  EXPECT_EQ(floor_of("-0.1", 0), "-1");
  EXPECT_EQ(ceil_of("99.9", 0), "100");
  EXPECT_EQ(floor_of("1234", -2), "1200");
  EXPECT_EQ(ceil_of("1234", -2), "1300");
}

TEST(Decimal, KnowsMultiples) {
  EXPECT_TRUE(is_multiple(decimal("0.07"), decimal("0.01")));
  EXPECT_TRUE(is_multiple(decimal("1e30"), decimal("7e2")) == false);
  EXPECT_TRUE(is_multiple(decimal("-21"), decimal("7")));
  EXPECT_TRUE(is_multiple(decimal("0"), decimal("7")));
  EXPECT_FALSE(is_multiple(decimal("0.075"), decimal("0.01")));
}

TEST(Decimal, HasLimits) {
  EXPECT_FALSE(Decimal::of("1e400").has_value());
  EXPECT_FALSE(Decimal::of("1e-500").has_value());
  EXPECT_FALSE(Decimal::of("1e99999999999").has_value());
  EXPECT_TRUE(Decimal::of("1e308").has_value());
}

}  // namespace
}  // namespace serval::grammar
