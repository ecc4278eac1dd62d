// Grammar rules for numbers with bounds and `multipleOf`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/grammar/decimal.h"
#include "engine/grammar/json_rules.h"

namespace serval::grammar {

// A schema's limits on a number.
struct NumberLimits {
  struct Bound {
    Decimal value;
    bool exclusive = false;
  };
  std::optional<Bound> least, most;
  std::optional<Decimal> step;  // above 0; the number must be a multiple of it
  bool integer = false;

  bool any() const { return least || most || step; }
};

// Adds rules to a grammar. Not thread-safe.
class NumberRules {
 public:
  explicit NumberRules(JsonRules& rules) : rules_(rules), grammar_(rules.grammar()) {}

  // Numbers without an exponent, with up to 15 digits before the point, or one more than `least` or `most`
  // has. They are within the bounds also after conversion to double. Throws Error(kUsage) with the keyword's
  // name for a step that needs too many states, and if no number is within the limits.
  RuleId rule(const NumberLimits& limits);

 private:
  // Decimal digits, of which the last `places` come after the point. Trailing zeros after the point may be
  // left out.
  struct Form {
    uint32_t places = 0;
    uint64_t step = 1;  // the number without its point is a multiple of it
    friend bool operator==(const Form&, const Form&) = default;
    friend bool operator<(const Form& a, const Form& b) {
      return std::pair(a.places, a.step) < std::pair(b.places, b.step);
    }
  };
  // Bounds of a magnitude as digits without the point, including leading and trailing zeros.
  struct Bounds {
    std::string least, most;  // of equal length
  };
  // A position in the digits of a number.
  struct Position {
    uint32_t left;  // digits still to read
    uint64_t rest;  // the number so far, padded with zeros for these digits, modulo the step
    bool at_least = false, at_most = false;  // whether the digits so far equal those of the bound
  };

  static Form form_of(const NumberLimits& limits);
  static Form form_of_step(const Decimal& step, bool integer);
  void add_magnitudes(StateId from, const Form& form, const BigInteger& least, const BigInteger& most);
  void add_lengths(StateId from, const Form& form, uint32_t least, uint32_t most);
  void add_digits(StateId from, const Form& form, const Bounds* bounds, const Position& position);
  StateId after(const Form& form, const Bounds* bounds, const Position& position);
  void add_rest(StateId state, const Form& form, const Bounds* bounds, const Position& position);
  StateId unbounded(const Form& form, const Position& position);
  StateId some_digits(uint32_t places, uint32_t least, uint32_t most);
  bool may_end(const Form& form, const Bounds* bounds, const Position& position) const;
  StateId end();

  JsonRules& rules_;
  Grammar& grammar_;
  std::optional<StateId> end_;
  std::map<std::tuple<Form, uint32_t, uint64_t>, StateId> unbounded_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, StateId> some_digits_;
};

}  // namespace serval::grammar
