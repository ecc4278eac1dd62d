#include "models/jinja/tests.h"

#include <fmt/format.h>

#include "models/jinja/arguments.h"
#include "models/jinja/letters.h"
#include "models/jinja/operators.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

struct Kind {
  std::string_view name;
  bool (*holds)(const Value& value);
};

constexpr Kind kKinds[] = {
    {"defined", [](const Value& v) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v) { return v.is_undefined(); }},
    {"none", [](const Value& v) { return v.is_none(); }},
    {"boolean", [](const Value& v) { return v.is_boolean(); }},
    {"true", [](const Value& v) { return v.is_boolean() && v.boolean(); }},
    {"false", [](const Value& v) { return v.is_boolean() && !v.boolean(); }},
    {"integer", [](const Value& v) { return v.is_integer(); }},
    {"float", [](const Value& v) { return v.is_float(); }},
    {"number", [](const Value& v) { return v.is_number(); }},
    {"string", [](const Value& v) { return v.is_text(); }},
    {"mapping", [](const Value& v) { return v.is_dict(); }},
    {"sequence",
     [](const Value& v) {
       return v.is_text() || v.is_dict() || v.is_undefined() || (v.is_list() && !v.is_generator());
     }},
    {"iterable",
     [](const Value& v) { return v.is_text() || v.is_dict() || v.is_list() || v.is_undefined(); }},
    {"callable", [](const Value& v) { return v.is_callable(); }},
    {"upper", [](const Value& v) { return is_upper(to_text(v).bytes()); }},
    {"lower", [](const Value& v) { return is_lower(to_text(v).bytes()); }},
};

// Names of comparisons and their signs.
constexpr std::pair<std::string_view, std::string_view> kComparisons[] = {
    {"eq", "=="},      {"equalto", "=="}, {"==", "=="}, {"ne", "!="}, {"!=", "!="}, {"lt", "<"},
    {"lessthan", "<"}, {"<", "<"},        {"le", "<="}, {"<=", "<="}, {"gt", ">"},  {"greaterthan", ">"},
    {">", ">"},        {"ge", ">="},      {">=", ">="}, {"in", "in"}};

std::int64_t remainder(Evaluation& evaluation, const Value& input, std::int64_t divisor) {
  return binary(evaluation, "%", input, Value(divisor)).whole();
}

bool same(const Value& a, const Value& b) {
  const bool constants = a.is_none() || a.is_boolean() || b.is_none() || b.is_boolean();
  return constants ? a.is_none() == b.is_none() && a.is_boolean() == b.is_boolean() && equal(a, b)
                   : equal(a, b);
}

}  // namespace

bool apply_test(Evaluation& evaluation, std::string_view name, const Value& input,
                const Arguments& arguments) {
  ArgumentReader reader(evaluation, name, arguments);
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    reader.finish();
    evaluation.charge(input.weight());
    return kind.holds(input);
  }
  for (const auto& [test, sign] : kComparisons) {
    if (test != name) continue;
    const Value other = reader.take("value");
    reader.finish();
    return compare(evaluation, sign, input, other);
  }
  if (name == "odd" || name == "even") return (remainder(evaluation, input, 2) == 1) == (name == "odd");
  if (name == "divisibleby") return remainder(evaluation, input, reader.take_integer("num", 1)) == 0;
  if (name == "sameas") return same(input, reader.take("other"));
  evaluation.fail(fmt::format("the test {} is not supported", in_quotes(name)));
}

}  // namespace serval::jinja
