#include "engine/grammar/number_rules.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::grammar {
namespace {

constexpr int kExactDigits = 15;  // digits that a double holds exactly
constexpr int kMostPlaces = 60;   // limit of digits after the point
constexpr uint64_t kMostSteps = 1000;
constexpr int kMostStepZeros = 6;
constexpr uint32_t kBase = 10;
const BigInteger kOne = {false, "1"};

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::kUsage, problem);
}

// 10^exponent modulo `modulus`, which is below 2^32.
uint64_t power_of_ten(uint32_t exponent, uint64_t modulus) {
  uint64_t power = 1 % modulus;
  for (uint32_t i = 0; i < exponent; ++i) power = power * kBase % modulus;
  return power;
}

// Exponent of the last of kExactDigits digits.
int exact_exponent(const Decimal& value) {
  return value.is_zero() ? -kExactDigits : value.magnitude() - (kExactDigits - 1);
}

// The least number of kExactDigits digits within the bound. Rounding to double keeps the order of such
// numbers, so every number from it on satisfies the bound also as a double.
Decimal exact_least(const NumberLimits::Bound& bound) {
  const int unit = exact_exponent(bound.value);
  const BigInteger value = bound.value.ceil_of(-unit);
  return {bound.exclusive ? value + kOne : value, unit};
}

NumberLimits::Bound negated(const NumberLimits::Bound& bound) {
  return {Decimal(-bound.value.value(), bound.value.exponent()), bound.exclusive};
}

Decimal exact_most(const NumberLimits::Bound& bound) {
  const Decimal least = exact_least(negated(bound));
  return {-least.value(), least.exponent()};
}

// The least integer that satisfies the bound × 10^places.
BigInteger integer_least(const NumberLimits::Bound& bound, int places) {
  return bound.exclusive ? bound.value.floor_of(places) + kOne : bound.value.ceil_of(places);
}

struct Range {
  BigInteger least, most;
};

// Fewer digits for larger steps, because the number of states grows with both.
uint32_t digits_before_point(uint64_t step) {
  constexpr uint64_t kSmall = 64, kMiddle = 256;
  constexpr uint32_t kOfMiddle = 9, kOfLarge = 7;
  return step <= kSmall ? kExactDigits : step <= kMiddle ? kOfMiddle : kOfLarge;
}

uint32_t length_before_point(const BigInteger& value, uint32_t places) {
  const auto digits = static_cast<uint32_t>(value.digits.size());
  return digits > places ? digits - places : 1;
}

// The range of numbers within the limits, × 10^places. A bound that is missing or has too many digits is
// replaced by the largest number that may be written.
Range range_of(const NumberLimits& limits, uint32_t places, uint32_t digits) {
  const bool is_exact = limits.integer || limits.step.has_value();
  const auto shift = static_cast<int>(places);
  std::optional<BigInteger> least, most;
  if (limits.least)
    least = is_exact ? integer_least(*limits.least, shift) : exact_least(*limits.least).floor_of(shift);
  if (limits.most)
    most = is_exact ? -integer_least(negated(*limits.most), shift) : exact_most(*limits.most).floor_of(shift);
  // The largest number of `digits` digits before the point, or of one digit more than the other bound has.
  const auto largest = [&](const std::optional<BigInteger>& other, bool is_beyond) {
    const uint32_t length = other && is_beyond ? length_before_point(*other, places) + 1 : 0;
    return BigInteger::power_of_ten(std::max(digits, length) + places) + -kOne;
  };
  const BigInteger lowest = -largest(most, most && most->negative);
  const BigInteger highest = largest(least, least && !least->negative);
  const Range range = {least ? std::max(*least, lowest) : lowest, most ? std::min(*most, highest) : highest};
  if (range.most < range.least) refuse("minimum, maximum: no number of the supported form is within them");
  return range;
}

// True if `left` more digits can complete a number with remainder `rest` to a multiple of `step`.
bool can_be_multiple(uint64_t step, uint64_t rest, uint32_t left) {
  uint64_t numbers = 1;
  for (uint32_t i = 0; i < left && numbers < step; ++i) numbers *= kBase;
  return (step - rest) % step < numbers;
}

std::string padded(const BigInteger& value, size_t digits) {
  return std::string(digits - value.digits.size(), '0') + value.digits;
}

}  // namespace

RuleId NumberRules::rule(const NumberLimits& limits) {
  const Form form = form_of(limits);
  const Range range = range_of(limits, form.places, digits_before_point(form.step));
  const StateId start = grammar_.add_state();
  if (range.least.negative) {
    const StateId negative = grammar_.add_state();
    grammar_.byte(start, '-', '-', negative);
    add_magnitudes(negative, form, range.most.negative ? -range.most : kOne, -range.least);
  }
  if (!range.most.negative)
    add_magnitudes(start, form, range.least.negative ? BigInteger() : range.least, range.most);
  return grammar_.add_rule(start);
}

NumberRules::Form NumberRules::form_of(const NumberLimits& limits) {
  if (limits.step) return form_of_step(*limits.step, limits.integer);
  if (limits.integer) return {};
  int places = kExactDigits;
  if (limits.least) places = std::max(places, -exact_least(*limits.least).exponent());
  if (limits.most) places = std::max(places, -exact_most(*limits.most).exponent());
  if (places > kMostPlaces)
    refuse(fmt::format("minimum, maximum: more than {} digits after the point", kMostPlaces));
  return {.places = static_cast<uint32_t>(places)};
}

NumberRules::Form NumberRules::form_of_step(const Decimal& step, bool integer) {
  const std::string& digits = step.value().digits;
  const int zeros = step.exponent();
  uint64_t factor = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), factor);
  if (error != std::errc() || factor > kMostSteps || zeros > kMostStepZeros || -zeros > kExactDigits) {
    refuse(
        fmt::format("multipleOf: {} is not supported; limit: {} units of its last digit, {} places, {} zeros",
                    step.plain(), kMostSteps, kExactDigits, kMostStepZeros));
  }
  Form form = {.step = factor};
  for (int i = 0; i < zeros; ++i) form.step *= kBase;
  if (!integer) form.places = static_cast<uint32_t>(std::max(-zeros, 0));
  // An integer is a multiple of q/10^n if and only if it is a multiple of q / gcd(q, 10^n).
  uint64_t power = 1;
  for (int i = zeros; integer && i < 0; ++i) power *= kBase;
  form.step /= std::gcd(form.step, power);
  return form;
}

StateId NumberRules::end() {
  if (!end_) end_ = grammar_.add_end();
  return *end_;
}

void NumberRules::add_magnitudes(StateId from, const Form& form, const BigInteger& least,
                                 const BigInteger& most) {
  const uint32_t shortest = length_before_point(least, form.places);
  const uint32_t longest = length_before_point(most, form.places);
  const bool lengths_are_alike = form.step == 1;
  if (lengths_are_alike && longest > shortest + 1) add_lengths(from, form, shortest + 1, longest - 1);
  for (uint32_t length = shortest; length <= longest; ++length) {
    const bool at_least = length == shortest, at_most = length == longest;
    if (lengths_are_alike && !at_least && !at_most) continue;
    const uint32_t digits = length + form.places;
    const Bounds bounds = {at_least ? padded(least, digits) : std::string(digits, '0'),
                           at_most ? padded(most, digits) : std::string(digits, '9')};
    add_digits(from, form, &bounds, {digits, 0, at_least, at_most});
  }
}

// Adds numbers with `least` to `most` digits before the point and no other bound.
void NumberRules::add_lengths(StateId from, const Form& form, uint32_t least, uint32_t most) {
  grammar_.byte(from, '1', '9', some_digits(form.places, least - 1, most - 1));
}

StateId NumberRules::some_digits(uint32_t places, uint32_t least, uint32_t most) {
  const auto [known, is_new] = some_digits_.try_emplace({places, least, most}, 0);
  if (!is_new) return known->second;
  if (most == 0) return some_digits_[{places, least, most}] = unbounded({places, 1}, {places, 0});
  const StateId state = grammar_.add_state();
  some_digits_[{places, least, most}] = state;
  grammar_.byte(state, '0', '9', some_digits(places, least > 0 ? least - 1 : 0, most - 1));
  if (least == 0) grammar_.jump(state, unbounded({places, 1}, {places, 0}));
  return state;
}

bool NumberRules::may_end(const Form& form, const Bounds* bounds, const Position& position) const {
  if (position.left > form.places || position.rest % form.step != 0) return false;
  if (!position.at_least) return true;
  const std::string_view rest = std::string_view(bounds->least).substr(bounds->least.size() - position.left);
  return rest.find_first_not_of('0') == std::string_view::npos;
}

// Adds edges for the next digit. A number begins with 0 only if 0 is its only digit before the point.
void NumberRules::add_digits(StateId from, const Form& form, const Bounds* bounds, const Position& position) {
  const uint32_t left = position.left - 1;
  const size_t at = bounds == nullptr ? 0 : bounds->least.size() - position.left;
  const bool is_first = bounds != nullptr && at == 0 && bounds->least.size() - form.places > 1;
  const int low =
      std::max(bounds != nullptr && position.at_least ? bounds->least[at] - '0' : 0, is_first ? 1 : 0);
  const int high =
      bounds != nullptr && position.at_most ? bounds->most[at] - '0' : static_cast<int>(kBase) - 1;
  const uint64_t weight = power_of_ten(left, form.step);
  std::optional<std::pair<StateId, int>> open;  // a state, and the first of the digits that lead to it
  const auto close = [&](int next) {
    if (open)
      grammar_.byte(from, static_cast<uint8_t>('0' + open->second), static_cast<uint8_t>('0' + next - 1),
                    open->first);
    open.reset();
  };
  for (int digit = low; digit <= high; ++digit) {
    const Position next = {left, (position.rest + static_cast<uint64_t>(digit) * weight) % form.step,
                           position.at_least && digit == low && digit == bounds->least[at] - '0',
                           position.at_most && digit == high};
    if (!can_be_multiple(form.step, next.rest, left)) {
      close(digit);
      continue;
    }
    const StateId to = after(form, bounds, next);
    if (open && open->first == to) continue;
    close(digit);
    open = std::pair(to, digit);
  }
  close(high + 1);
}

// The state after a digit.
StateId NumberRules::after(const Form& form, const Bounds* bounds, const Position& position) {
  if (!position.at_least && !position.at_most) return unbounded(form, position);
  const StateId state = grammar_.add_state();
  add_rest(state, form, bounds, position);
  return state;
}

// From `state` the number ends, or continues with a point where it belongs and a digit.
void NumberRules::add_rest(StateId state, const Form& form, const Bounds* bounds, const Position& position) {
  if (may_end(form, bounds, position)) grammar_.jump(state, end());
  if (position.left == 0) return;
  StateId next = state;
  if (position.left == form.places) {
    next = grammar_.add_state();
    grammar_.byte(state, '.', '.', next);
  }
  add_digits(next, form, bounds, position);
}

// The state after a digit when no bound restricts the rest. All numbers of the grammar share these states.
StateId NumberRules::unbounded(const Form& form, const Position& position) {
  const std::tuple key(form, position.left, position.rest);
  if (const auto known = unbounded_.find(key); known != unbounded_.end()) return known->second;
  const StateId state = grammar_.add_state();
  unbounded_[key] = state;
  add_rest(state, form, nullptr, {position.left, position.rest});
  return state;
}

}  // namespace serval::grammar
