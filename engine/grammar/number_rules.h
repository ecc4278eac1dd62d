// Numbers within bounds, and multiples, as rules of a grammar.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/grammar/decimal.h"
#include "engine/grammar/json_rules.h"

namespace serval::grammar {

// What a schema asks of a number.
struct NumberLimits {
  struct Bound {
    Decimal value;
    bool exclusive = false;
  };
  std::optional<Bound> least, most;
  std::optional<Decimal> step;  // above 0: it is a multiple of this
  bool integer = false;

  bool asks() const { return least || most || step; }
};

// Adds rules to a grammar. Not thread-safe.
class NumberRules {
 public:
  explicit NumberRules(JsonRules& rules) : rules_(rules), grammar_(rules.grammar()) {}

  // Numbers without an exponent, of up to 15 digits before the point, or one more than `least` or `most`
  // have. As doubles, too, they are within the bounds. Throws Error(kUsage), which names the keyword, for a
  // step that needs too many states, and where no number is within the limits.
  RuleId rule(const NumberLimits& limits);

 private:
  // Decimal digits with a point before the last `places` of them; those after it may end with any zero.
  struct Form {
    uint32_t places = 0;
    uint64_t step = 1;  // the number without its point is a multiple of this
    friend bool operator==(const Form&, const Form&) = default;
    friend bool operator<(const Form& a, const Form& b) {
      return std::pair(a.places, a.step) < std::pair(b.places, b.step);
    }
  };
  // Magnitudes of so many digits before the point, written with all zeros.
  struct Tight {
    std::string least, most;  // of equal length
  };
  // Where a walk through the digits is: so many are left, and what was read is at a bound, or not.
  struct Spot {
    uint32_t left;
    uint64_t rest;  // of what was read, as a part of the whole number, divided by the step
    bool at_least = false, at_most = false;
  };

  static Form form_of(const NumberLimits& limits);
  static Form form_of_step(const Decimal& step, bool integer);
  void add_magnitudes(StateId from, const Form& form, const BigInteger& least, const BigInteger& most);
  void add_lengths(StateId from, const Form& form, uint32_t least, uint32_t most);
  void add_digits(StateId from, const Form& form, const Tight* tight, const Spot& spot);
  StateId after(const Form& form, const Tight* tight, const Spot& spot);
  StateId free(const Form& form, const Spot& spot);
  StateId some_digits(uint32_t places, uint32_t least, uint32_t most);
  bool may_end(const Form& form, const Tight* tight, const Spot& spot) const;
  StateId end();

  JsonRules& rules_;
  Grammar& grammar_;
  std::optional<StateId> end_;
  std::map<std::tuple<Form, uint32_t, uint64_t>, StateId> free_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, StateId> some_digits_;
};

}  // namespace serval::grammar
