#include "models/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "models/jinja/formatting.h"
#include "models/jinja/methods.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

[[noreturn]] void fail_operands(Evaluation& evaluation, std::string_view sign, const Value& a,
                                const Value& b) {
  for (const Value* operand : {&a, &b}) {
    if (operand->is_undefined()) evaluation.fail(fmt::format("{} is undefined", operand->undefined().what));
  }
  evaluation.fail(fmt::format("{} {} {} is not possible", type_name(a), sign, type_name(b)));
}

void require_no_overflow(Evaluation& evaluation, bool overflows) {
  if (overflows) evaluation.fail("an integer of more than 64 bits");
}

std::int64_t power(Evaluation& evaluation, std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) {
    require_no_overflow(evaluation, __builtin_mul_overflow(out, base, &out));
  }
  return out;
}

// As in Python, the quotient is rounded down, and the remainder has the divisor's sign.
Value divided(Evaluation& evaluation, char kind, std::int64_t a, std::int64_t b) {
  if (b == 0) evaluation.fail("division by zero");
  require_no_overflow(evaluation, a == INT64_MIN && b == -1);
  const bool down = a % b != 0 && (a % b < 0) != (b < 0);
  return kind == '%' ? Value(a % b + (down ? b : 0)) : Value(a / b - (down ? 1 : 0));
}

Value integer_arithmetic(Evaluation& evaluation, std::string_view sign, std::int64_t a, std::int64_t b) {
  if (sign == "+" || sign == "-" || sign == "*") {
    std::int64_t out = 0;
    const bool overflows = sign == "+"   ? __builtin_add_overflow(a, b, &out)
                           : sign == "-" ? __builtin_sub_overflow(a, b, &out)
                                         : __builtin_mul_overflow(a, b, &out);
    require_no_overflow(evaluation, overflows);
    return out;
  }
  if (sign == "//") return divided(evaluation, '/', a, b);
  if (sign == "%") return divided(evaluation, '%', a, b);
  if (sign == "**" && b >= 0) return power(evaluation, a, b);
  if (sign == "**") return std::pow(static_cast<double>(a), static_cast<double>(b));
  if (b == 0) evaluation.fail("division by zero");
  return static_cast<double>(a) / static_cast<double>(b);
}

Value real_arithmetic(Evaluation& evaluation, std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  if (b == 0) evaluation.fail("division by zero");
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value repeated(Evaluation& evaluation, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  std::size_t work = 0;
  if (__builtin_mul_overflow(count, value.weight() * sizeof(Value), &work)) evaluation.fail("takes too long");
  evaluation.charge(work);
  if (value.is_text()) {
    Text out;
    for (std::size_t i = 0; i < count; ++i) out.append(value.text());
    return evaluation.checked(out);
  }
  List out;
  for (std::size_t i = 0; i < count; ++i)
    out.insert(out.end(), value.elements().begin(), value.elements().end());
  return evaluation.checked_list(std::move(out));
}

Value joined(Evaluation& evaluation, const Value& a, const Value& b) {
  if (a.is_text()) {
    evaluation.charge(a.text().size() + b.text().size());
    return evaluation.checked(a.text() + b.text());
  }
  List out = a.elements();
  out.insert(out.end(), b.elements().begin(), b.elements().end());
  evaluation.charge(out.size() * sizeof(Value));
  return evaluation.checked(Value::sequence(std::move(out), a.kind()));
}

// Resolves index `at` of `size` elements; negative ones count from the end. -1 if it is out of range.
std::int64_t index_of(std::int64_t at, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (at < 0) at += at < -count ? 0 : count;
  return at >= 0 && at < count ? at : -1;
}

Value element(const Value& object, std::int64_t at) {
  const Value missing = Undefined{fmt::format("element {}", at)};
  if (object.is_list()) {
    const std::int64_t index = index_of(at, object.elements().size());
    return index < 0 ? missing : object.elements()[static_cast<std::size_t>(index)];
  }
  const auto bounds = object.text().boundaries();
  const std::int64_t index = index_of(at, bounds.size() - 1);
  if (index < 0) return missing;
  const auto begin = static_cast<std::size_t>(index);
  return object.text().slice(bounds[begin], bounds[begin + 1]);
}

Value missing_attribute(const Value& object, std::string_view name) {
  return Undefined{fmt::format("{} of a {}", in_quotes(name), type_name(object))};
}

void require_defined(Evaluation& evaluation, const Value& object) {
  if (object.is_undefined()) evaluation.fail(fmt::format("{} is undefined", object.undefined().what));
}

struct Bounds {
  std::int64_t begin, end, step;
};

std::int64_t bound(Evaluation& evaluation, const Value& value, std::int64_t otherwise) {
  if (value.is_none()) return otherwise;
  if (value.is_integer() || value.is_boolean()) return value.whole();
  require_defined(evaluation, value);
  evaluation.fail(fmt::format("a {} as a bound of a slice", type_name(value)));
}

// As Python's slice.indices(size).
Bounds bounds_of(Evaluation& evaluation, const Value& begin, const Value& end, const Value& step,
                 std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  Bounds out{0, 0, bound(evaluation, step, 1)};
  if (out.step == 0) evaluation.fail("the step of a slice must not be 0");
  const std::int64_t low = out.step > 0 ? 0 : -1, high = out.step > 0 ? count : count - 1;
  const auto clamped = [&](std::int64_t at) {
    if (at < 0) at += at < -count - 1 ? 0 : count;
    return std::clamp(at, low, high);
  };
  out.begin = begin.is_none() ? (out.step > 0 ? low : high) : clamped(bound(evaluation, begin, 0));
  out.end = end.is_none() ? (out.step > 0 ? high : low) : clamped(bound(evaluation, end, 0));
  return out;
}

std::vector<std::size_t> indices(const Bounds& bounds) {
  std::vector<std::size_t> out;
  const auto in_bounds = [&](std::int64_t at) { return bounds.step > 0 ? at < bounds.end : at > bounds.end; };
  for (std::int64_t at = bounds.begin; in_bounds(at);) {
    out.push_back(static_cast<std::size_t>(at));
    if (__builtin_add_overflow(at, bounds.step, &at)) break;
  }
  return out;
}

}  // namespace

Value binary(Evaluation& evaluation, std::string_view sign, const Value& a, const Value& b) {
  if (sign == "~") {
    const Text left = to_text(a), right = to_text(b);
    evaluation.charge(left.size() + right.size());
    return evaluation.checked(left + right);
  }
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return real_arithmetic(evaluation, sign, a.real(), b.real());
    return integer_arithmetic(evaluation, sign, a.whole(), b.whole());
  }
  if (sign == "%" && a.is_text()) return percent_formatted(evaluation, a.text(), b);
  const bool same = (a.is_text() && b.is_text()) ||
                    (a.is_list() && b.is_list() && a.kind() == b.kind() && !a.is_generator());
  if (sign == "+" && same) return joined(evaluation, a, b);
  const auto counts = [](const Value& v) { return v.is_integer() || v.is_boolean(); };
  const auto repeats = [](const Value& v) {
    return v.is_text() || (v.is_list() && v.kind() == Value::SequenceKind::kList);
  };
  if (sign == "*" && repeats(a) && counts(b)) return repeated(evaluation, a, b.whole());
  if (sign == "*" && counts(a) && repeats(b)) return repeated(evaluation, b, a.whole());
  fail_operands(evaluation, sign, a, b);
}

Value negated(Evaluation& evaluation, const Value& value, bool minus) {
  if (!value.is_number()) {
    require_defined(evaluation, value);
    evaluation.fail(fmt::format("the sign of a {}", type_name(value)));
  }
  if (value.is_float()) return minus ? -value.real() : value.real();
  return minus ? integer_arithmetic(evaluation, "-", 0, value.whole()) : Value(value.whole());
}

bool contains(Evaluation& evaluation, const Value& container, const Value& element) {
  evaluation.charge(container.weight());
  if (container.is_undefined()) return false;
  if (container.is_dict()) return container.find(element) != nullptr;
  if (container.is_list()) {
    return std::any_of(container.elements().begin(), container.elements().end(),
                       [&](const Value& each) { return equal(each, element); });
  }
  if (container.is_text() && element.is_text())
    return container.text().bytes().find(element.text().bytes()) != std::string::npos;
  fail_operands(evaluation, "in", element, container);
}

bool compare(Evaluation& evaluation, std::string_view sign, const Value& a, const Value& b) {
  if (sign == "in") return contains(evaluation, b, a);
  if (sign == "not in") return !contains(evaluation, b, a);
  evaluation.charge(std::min(a.weight(), b.weight()));
  if (sign == "==") return equal(a, b);
  if (sign == "!=") return !equal(a, b);
  const bool swaps = sign[0] == '>';
  const auto below = swaps ? less(b, a) : less(a, b);
  if (!below) fail_operands(evaluation, sign, a, b);
  return sign.size() == 1 ? *below : *below || equal(a, b);
}

List elements_of(Evaluation& evaluation, const Value& value) {
  List out;
  if (value.is_list()) out = value.elements();
  if (value.is_dict()) {
    for (const auto& [key, entry] : value.entries()) out.push_back(key);
  }
  if (value.is_text()) {
    const auto at = value.text().boundaries();
    evaluation.charge(at.size() * sizeof(Text));
    for (std::size_t i = 0; i + 1 < at.size(); ++i) out.emplace_back(value.text().slice(at[i], at[i + 1]));
  }
  const bool iterable = value.is_list() || value.is_dict() || value.is_text() || value.is_undefined();
  if (!iterable) evaluation.fail(fmt::format("a {} has no elements", type_name(value)));
  evaluation.charge(out.size() * sizeof(Value));
  return out;
}

Value attribute(Evaluation& evaluation, const Value& object, std::string_view name) {
  require_defined(evaluation, object);
  if (object.is_name_space()) {
    const auto found = object.attributes().find(name);
    return found == object.attributes().end() ? missing_attribute(object, name) : found->second;
  }
  if (auto method = find_method(object, name)) return std::move(*method);
  const Value* entry = object.is_dict() ? object.find(name) : nullptr;
  return entry == nullptr ? missing_attribute(object, name) : *entry;
}

Value item(Evaluation& evaluation, const Value& object, const Value& key) {
  require_defined(evaluation, object);
  if (object.is_dict()) {
    if (const Value* entry = object.find(key)) return *entry;
  } else if ((object.is_list() || object.is_text()) && (key.is_integer() || key.is_boolean())) {
    evaluation.charge(object.is_text() ? object.text().size() * sizeof(std::size_t) : 1);
    return element(object, key.whole());
  }
  if (key.is_text()) return attribute(evaluation, object, key.text().bytes());
  return Undefined{fmt::format("an element of a {}", type_name(object))};
}

Value slice(Evaluation& evaluation, const Value& object, const Value& begin, const Value& end,
            const Value& step) {
  require_defined(evaluation, object);
  if (object.is_list()) {
    const auto at = indices(bounds_of(evaluation, begin, end, step, object.elements().size()));
    List out;
    for (const std::size_t i : at) out.push_back(object.elements()[i]);
    evaluation.charge(out.size() * sizeof(Value));
    return evaluation.checked(Value::sequence(std::move(out), object.kind()));
  }
  if (!object.is_text()) evaluation.fail(fmt::format("a slice of a {}", type_name(object)));
  const auto at = object.text().boundaries();
  evaluation.charge(at.size() * sizeof(std::size_t));
  Text out;
  for (const std::size_t i : indices(bounds_of(evaluation, begin, end, step, at.size() - 1)))
    out.append(object.text().slice(at[i], at[i + 1]));
  return out;
}

}  // namespace serval::jinja
