// Exact decimal arithmetic for numbers in JSON text.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace serval::grammar {

// An integer of any size.
struct BigInteger {
  bool negative = false;     // never of 0
  std::string digits = "0";  // decimal digits of the magnitude, without leading zeros

  static BigInteger of(std::string digits, bool negative);
  static BigInteger power_of_ten(uint32_t exponent);
  BigInteger operator-() const { return of(digits, !negative); }
  bool is_zero() const { return digits == "0"; }
  friend BigInteger operator+(const BigInteger& a, const BigInteger& b);
  friend std::strong_ordering operator<=>(const BigInteger& a, const BigInteger& b);
  friend bool operator==(const BigInteger&, const BigInteger&) = default;
};

// Limit of the digits before the point, and of those after it: more than a double has.
inline constexpr int kMostDecimalPlaces = 400;

// The number ± digits × 10^exponent.
class Decimal {
 public:
  Decimal() = default;
  // Parses a JSON number. Returns nullopt if it has more digits than kMostDecimalPlaces.
  static std::optional<Decimal> of(std::string_view json);
  Decimal(const BigInteger& value, int exponent);

  bool is_zero() const { return value_.is_zero(); }
  bool is_negative() const { return value_.negative; }
  bool is_integer() const { return exponent_ >= 0; }
  const BigInteger& value() const { return value_; }  // without trailing zeros
  int exponent() const { return exponent_; }          // 0 for 0
  // Exponent of the first digit: 2 for 123; 0 for 0.
  int magnitude() const { return static_cast<int>(value_.digits.size()) - 1 + exponent_; }
  // Floor and ceiling of this number × 10^places.
  BigInteger floor_of(int places) const;
  BigInteger ceil_of(int places) const { return -Decimal(-value_, exponent_).floor_of(places); }
  std::string plain() const;  // without an exponent

  friend std::strong_ordering operator<=>(const Decimal& a, const Decimal& b);
  friend bool operator==(const Decimal& a, const Decimal& b) { return std::is_eq(a <=> b); }

 private:
  BigInteger value_;
  int exponent_ = 0;
};

// True if `value` is a multiple of `step`, which must be above 0 and have at most 18 digits without trailing
// zeros.
bool is_multiple(const Decimal& value, const Decimal& step);

}  // namespace serval::grammar
