#include "engine/grammar/decimal.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace serval::grammar {
namespace {

constexpr int kBase = 10;

int digit(char c) {
  return c - '0';
}
char character(int value) {
  return static_cast<char>('0' + value);
}

std::strong_ordering compare_magnitudes(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

std::string sum(std::string_view a, std::string_view b) {
  std::string out;
  int carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) || carry > 0; ++i) {
    const int value = carry + (i < a.size() ? digit(a[a.size() - 1 - i]) : 0) +
                      (i < b.size() ? digit(b[b.size() - 1 - i]) : 0);
    out += character(value % kBase);
    carry = value / kBase;
  }
  std::ranges::reverse(out);
  return out;
}

// Requires a >= b.
std::string difference(std::string_view a, std::string_view b) {
  std::string out;
  int borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int value = digit(a[a.size() - 1 - i]) - borrow - (i < b.size() ? digit(b[b.size() - 1 - i]) : 0);
    borrow = value < 0 ? 1 : 0;
    if (value < 0) value += kBase;
    out += character(value);
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace

BigInteger BigInteger::of(std::string digits, bool negative) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return {};
  return {negative, std::move(digits)};
}

BigInteger BigInteger::power_of_ten(uint32_t exponent) {
  return {false, "1" + std::string(exponent, '0')};
}

BigInteger operator+(const BigInteger& a, const BigInteger& b) {
  if (a.negative == b.negative) return BigInteger::of(sum(a.digits, b.digits), a.negative);
  if (std::is_lt(compare_magnitudes(a.digits, b.digits))) return b + a;
  return BigInteger::of(difference(a.digits, b.digits), a.negative);
}

std::strong_ordering operator<=>(const BigInteger& a, const BigInteger& b) {
  if (a.negative != b.negative)
    return a.negative ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.negative ? compare_magnitudes(b.digits, a.digits) : compare_magnitudes(a.digits, b.digits);
}

Decimal::Decimal(const BigInteger& value, int exponent) : value_(value), exponent_(exponent) {
  if (value_.is_zero()) {
    exponent_ = 0;
    return;
  }
  while (value_.digits.back() == '0') {
    value_.digits.pop_back();
    ++exponent_;
  }
}

std::optional<Decimal> Decimal::of(std::string_view json) {
  const size_t e = std::min(json.find_first_of("eE"), json.size());
  int exponent = 0;
  if (e < json.size()) {
    std::string_view text = json.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    constexpr int kMostExponent = 1'000'000;  // prevents overflow below
    if (std::abs(exponent) > kMostExponent) return std::nullopt;
  }
  std::string_view number = json.substr(0, e);
  const bool negative = number.starts_with('-');
  if (negative) number.remove_prefix(1);
  const size_t point = std::min(number.find('.'), number.size());
  std::string digits(number.substr(0, point));
  if (point < number.size()) {
    digits += number.substr(point + 1);
    exponent -= static_cast<int>(number.size() - point - 1);
  }
  const Decimal decimal(BigInteger::of(std::move(digits), negative), exponent);
  const bool fits = decimal.magnitude() < kMostDecimalPlaces && decimal.exponent_ >= -kMostDecimalPlaces;
  return fits ? std::optional(decimal) : std::nullopt;
}

BigInteger Decimal::floor_of(int places) const {
  const int shift = exponent_ + places;
  if (value_.is_zero()) return {};
  if (shift >= 0) return {value_.negative, value_.digits + std::string(static_cast<size_t>(shift), '0')};
  const auto cut = static_cast<size_t>(-shift);
  const bool is_fraction = cut >= value_.digits.size();
  const BigInteger towards_zero =
      BigInteger::of(is_fraction ? "" : value_.digits.substr(0, value_.digits.size() - cut), value_.negative);
  // A negative number was rounded up: the removed digits are not all 0, as value_ has no trailing zeros.
  return value_.negative ? towards_zero + BigInteger{true, "1"} : towards_zero;
}

bool is_multiple(const Decimal& value, const Decimal& step) {
  if (value.is_zero()) return true;
  uint64_t modulus = 0;
  const std::string& digits = step.value().digits;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), modulus);
  // A value whose last digit lies below the step's last digit is not a multiple: neither has trailing zeros.
  if (error != std::errc() || modulus > UINT64_MAX / kBase - kBase || value.exponent() < step.exponent())
    return false;
  uint64_t rest = 0;
  const auto append = [&](int next) { rest = (rest * kBase + static_cast<uint64_t>(next)) % modulus; };
  for (const char c : value.value().digits) append(digit(c));
  for (int i = value.exponent(); i > step.exponent(); --i) append(0);
  return rest == 0;
}

std::string Decimal::plain() const {
  std::string digits = value_.digits;
  if (exponent_ >= 0) {
    digits.append(static_cast<size_t>(exponent_), '0');
  } else {
    const auto places = static_cast<size_t>(-exponent_);
    if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
    digits.insert(digits.size() - places, ".");
  }
  return (value_.negative ? "-" : "") + digits;
}

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b) {
  const int places = std::max({-a.exponent_, -b.exponent_, 0});
  return a.floor_of(places) <=> b.floor_of(places);
}

}  // namespace serval::grammar
