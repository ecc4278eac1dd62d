#include "models/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "models/jinja/arguments.h"
#include "models/jinja/formatting.h"
#include "models/jinja/json.h"
#include "models/jinja/letters.h"
#include "models/jinja/methods.h"
#include "models/jinja/operators.h"
#include "models/jinja/tests.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

struct BuiltIn {
  std::string_view name;
  Value (*apply)(Evaluation& evaluation, const Value& input, ArgumentReader& arguments);
};

// Filters that pass arguments on to another filter, a test or a format.
struct Forwarding {
  std::string_view name;
  Value (*apply)(Evaluation& evaluation, const Value& input, const Arguments& arguments);
};

Text text_of(Evaluation& evaluation, const Value& value) {
  evaluation.charge(value.weight());
  return to_text(value);
}

// Follows a path such as "a.b"; parts that are numbers are indices.
Value path_of(Evaluation& evaluation, Value value, const Value& path) {
  if (!path.is_text()) return item(evaluation, value, path);
  std::string_view rest = path.text().bytes();
  for (bool more = true; more;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = error == std::errc() && end == part.data() + part.size();
    value = item(evaluation, value, is_index ? Value(index) : Value(Text(std::string(part))));
    more = dot != rest.npos;
    if (more) rest = rest.substr(dot + 1);
  }
  return value;
}

Value trim(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const Value chars = arguments.take("chars", Value());
  const Text text = text_of(evaluation, input);
  if (chars.is_none()) return text.stripped(Text::Ends::kBoth);
  return text.stripped(Text::Ends::kBoth, arguments.text("chars", chars).bytes());
}

Value tojson(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  JsonStyle style;
  style.ascii_only = arguments.take_flag("ensure_ascii", false);
  const Value indent = arguments.take("indent", Value());
  const Value separators = arguments.take("separators", Value());
  style.sorted = arguments.take_flag("sort_keys", false);
  if (indent.is_text()) style.indent = indent.text();
  if (indent.is_integer()) {
    constexpr std::int64_t kMaxIndent = 64;
    style.indent = Text(
        std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(indent.whole(), 0, kMaxIndent)), ' '));
  }
  if (style.indent) style.between = Text(",");
  if (!separators.is_none()) {
    const List both = elements_of(evaluation, separators);
    if (both.size() != 2) evaluation.fail("tojson: separators: expected two");
    style.between = arguments.text("separators", both[0]);
    style.after_key = arguments.text("separators", both[1]);
  }
  return evaluation.checked(to_json(evaluation, input, style));
}

Value length(Evaluation& evaluation, const Value& input, ArgumentReader&) {
  if (input.is_generator() ||
      !(input.is_list() || input.is_dict() || input.is_text() || input.is_undefined()))
    evaluation.fail(fmt::format("a {} has no length", type_name(input)));
  if (input.is_undefined()) return std::int64_t{0};
  if (input.is_text()) evaluation.charge(input.text().size());
  const std::size_t size = input.is_text()   ? input.text().characters()
                           : input.is_list() ? input.elements().size()
                                             : input.entries().size();
  return static_cast<std::int64_t>(size);
}

Value join(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const Text between = text_of(evaluation, arguments.take("d", Value(Text())));
  const Value path = arguments.take("attribute", Value());
  Text out;
  bool first = true;
  for (const Value& element : elements_of(evaluation, input)) {
    if (!std::exchange(first, false)) out.append(between);
    out.append(text_of(evaluation, path.is_none() ? element : path_of(evaluation, element, path)));
    evaluation.charge(between.size());
  }
  return evaluation.checked(out);
}

Value default_value(Evaluation&, const Value& input, ArgumentReader& arguments) {
  const Value otherwise = arguments.take("default_value", Value(Text()));
  const bool unless_true = arguments.take_flag("boolean", false);
  return input.is_undefined() || (unless_true && !truth(input)) ? otherwise : input;
}

Value first(Evaluation& evaluation, const Value& input, ArgumentReader&) {
  const List elements = elements_of(evaluation, input);
  return elements.empty() ? Value(Undefined{"the first element of nothing"}) : elements.front();
}

Value last(Evaluation& evaluation, const Value& input, ArgumentReader&) {
  if (input.is_generator()) evaluation.fail("a generator has no last element");
  const List elements = elements_of(evaluation, input);
  return elements.empty() ? Value(Undefined{"the last element of nothing"}) : elements.back();
}

Value replace(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const Text text = text_of(evaluation, input);
  const Text old = arguments.take_text("old"), with = text_of(evaluation, arguments.take("new"));
  const Value count = arguments.take("count", Value());
  if (old.empty()) evaluation.fail("replace: the text to replace is empty");
  const std::int64_t most = count.is_none() ? -1 : arguments.integer("count", count);
  evaluation.charge(text.size() * (1 + with.size() / old.size()));
  return evaluation.checked(
      text.replaced(old.bytes(), with, most < 0 ? SIZE_MAX : static_cast<std::size_t>(most)));
}

Value indent(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  constexpr std::int64_t kWidth = 4, kMaxWidth = 1000;
  const Value width = arguments.take("width", Value(kWidth));
  const bool indents_first = arguments.take_flag("first", false),
             indents_blank = arguments.take_flag("blank", false);
  const Text text = text_of(evaluation, input) + Text("\n");
  const Text space = width.is_text() ? width.text()
                                     : Text(std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                                            arguments.integer("width", width), 0, kMaxWidth)),
                                                        ' '));
  evaluation.charge(text.size() * sizeof(std::size_t));
  Text out;
  bool is_first = true;
  for (const Value& line : lines_of(text, /*with_ends=*/false)) {
    const bool begins = std::exchange(is_first, false);
    if (!begins) out.append(Text("\n"));
    if (begins ? indents_first : indents_blank || !line.text().empty()) out.append(space);
    out.append(line.text());
    evaluation.charge(space.size() + line.weight());
  }
  return evaluation.checked(out);
}

// As Python's float(); nullopt if that raises an error.
std::optional<double> number_of(const Value& value) {
  if (value.is_number()) return value.real();
  if (!value.is_text()) return std::nullopt;
  const Text text = value.text().stripped(Text::Ends::kBoth);
  std::string_view digits = text.bytes();
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  return whole ? std::optional(out) : std::nullopt;
}

void require_number(Evaluation& evaluation, const Value& input) {
  if (input.is_undefined()) evaluation.fail(fmt::format("{} is undefined", input.undefined().what));
}

Value to_integer(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const Value otherwise = arguments.take("default", Value(std::int64_t{0}));
  constexpr std::int64_t kDecimal = 10;
  if (arguments.take_integer("base", kDecimal) != kDecimal) evaluation.fail("int: only base 10 is supported");
  require_number(evaluation, input);
  if (input.is_integer() || input.is_boolean()) return input.whole();
  if (input.is_text()) {
    const Text text = input.text().stripped(Text::Ends::kBoth);
    std::string_view digits = text.bytes();
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::int64_t out = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    if (error == std::errc() && end == digits.data() + digits.size()) return out;
  }
  const auto number = number_of(input);
  constexpr double kLimit = 9.2e18;
  if (!number || !std::isfinite(*number)) return otherwise;
  if (std::abs(*number) > kLimit) evaluation.fail("an integer of more than 64 bits");
  return static_cast<std::int64_t>(*number);
}

Value to_float(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  require_number(evaluation, input);
  const Value otherwise = arguments.take("default", Value(0.0));
  const auto number = number_of(input);
  return number ? Value(*number) : otherwise;
}

Value items(Evaluation& evaluation, const Value& input, ArgumentReader&) {
  if (input.is_undefined()) return Value::generator({});
  if (!input.is_dict()) evaluation.fail(fmt::format("a {} has no items", type_name(input)));
  List out;
  for (const auto& [key, value] : input.entries()) out.push_back(Value::tuple({key, value}));
  evaluation.charge(out.size() * sizeof(Value));
  return Value::generator(std::move(out));
}

Value reverse(Evaluation& evaluation, const Value& input, ArgumentReader&) {
  List elements = elements_of(evaluation, input);
  std::reverse(elements.begin(), elements.end());
  if (!input.is_text()) return Value::generator(std::move(elements));
  Text out;
  for (const Value& element : elements) out.append(element.text());
  return out;
}

// The key that sort and unique compare: the element or the part at `path`, in lower case unless
// case_sensitive.
Value key_of(Evaluation& evaluation, const Value& element, const Value& path, bool case_sensitive) {
  Value key = path.is_none() ? element : path_of(evaluation, element, path);
  return key.is_text() && !case_sensitive ? Value(lower(evaluation, key.text())) : key;
}

// Sorts pairs of (key, element) by key and returns the elements.
Value sorted(Evaluation& evaluation, std::vector<std::pair<Value, Value>> keyed, bool reversed) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    evaluation.charge(std::min(a.first.weight(), b.first.weight()));
    const auto below = reversed ? less(b.first, a.first) : less(a.first, b.first);
    if (!below) evaluation.fail("sort: elements of different types");
    return *below;
  });
  List out;
  for (auto& [key, element] : keyed) out.push_back(std::move(element));
  return evaluation.checked_list(std::move(out));
}

Value sort(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const bool reversed = arguments.take_flag("reverse", false);
  const bool case_sensitive = arguments.take_flag("case_sensitive", false);
  const Value path = arguments.take("attribute", Value());
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& element : elements_of(evaluation, input))
    keyed.emplace_back(key_of(evaluation, element, path, case_sensitive), element);
  return sorted(evaluation, std::move(keyed), reversed);
}

Value unique(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const bool case_sensitive = arguments.take_flag("case_sensitive", false);
  const Value path = arguments.take("attribute", Value());
  List keys, out;
  for (const Value& element : elements_of(evaluation, input)) {
    Value key = key_of(evaluation, element, path, case_sensitive);
    evaluation.charge(keys.size() * key.weight());
    if (std::any_of(keys.begin(), keys.end(), [&key](const Value& each) { return equal(each, key); }))
      continue;
    keys.push_back(std::move(key));
    out.push_back(element);
  }
  return Value::generator(std::move(out));
}

Value sum(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const Value path = arguments.take("attribute", Value());
  Value total = arguments.take("start", Value(std::int64_t{0}));
  if (total.is_text()) evaluation.fail("sum: start is a str; use join");
  for (const Value& element : elements_of(evaluation, input))
    total = binary(evaluation, "+", total, path.is_none() ? element : path_of(evaluation, element, path));
  return total;
}

// The minimum or maximum; the first of several equal elements.
template <bool greatest>
Value extreme(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const bool case_sensitive = arguments.take_flag("case_sensitive", false);
  const Value path = arguments.take("attribute", Value());
  std::optional<std::pair<Value, Value>> best;
  for (const Value& element : elements_of(evaluation, input)) {
    Value key = key_of(evaluation, element, path, case_sensitive);
    if (best) evaluation.charge(std::min(key.weight(), best->first.weight()));
    const auto better = !best      ? std::optional(true)
                        : greatest ? less(best->first, key)
                                   : less(key, best->first);
    if (!better) evaluation.fail("min, max: elements of different types");
    if (*better) best.emplace(std::move(key), element);
  }
  return best ? best->second : Value(Undefined{"the least or greatest of nothing"});
}

// "common" rounds half to even, as Python's round(); "ceil" rounds up and "floor" down.
Value rounded(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  constexpr std::int64_t kMostPrecision = 100;
  const std::int64_t precision = arguments.take_integer("precision", 0);
  const std::string method =
      arguments.text("method", arguments.take("method", Value(Text("common")))).bytes();
  if (!input.is_number()) evaluation.fail(fmt::format("round: a {} is not a number", type_name(input)));
  if (precision < 0 || precision > kMostPrecision)
    evaluation.fail(fmt::format("round: a precision of {}; limit: 0 to {}", precision, kMostPrecision));
  if (method == "common") {
    if (!input.is_float()) return input.whole();
    if (!std::isfinite(input.real())) return input.real();
    return std::strtod(fmt::format("{:.{}f}", input.real(), precision).c_str(), nullptr);
  }
  if (method != "ceil" && method != "floor") evaluation.fail("round: expected common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.real() * scale;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value dictsort(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  const bool case_sensitive = arguments.take_flag("case_sensitive", false);
  const std::string by = arguments.text("by", arguments.take("by", Value(Text("key")))).bytes();
  const bool reversed = arguments.take_flag("reverse", false);
  if (!input.is_dict()) evaluation.fail(fmt::format("dictsort: a {} is not a dict", type_name(input)));
  if (by != "key" && by != "value") evaluation.fail("dictsort: by: expected key or value");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : input.entries())
    keyed.emplace_back(key_of(evaluation, by == "key" ? key : value, Value(), case_sensitive),
                       Value::tuple({key, value}));
  return sorted(evaluation, std::move(keyed), reversed);
}

Value center(Evaluation& evaluation, const Value& input, ArgumentReader& arguments) {
  constexpr std::int64_t kWidth = 80;
  const Value width = arguments.take("width", Value(kWidth));
  const Value method = *find_method(Value(text_of(evaluation, input)), "center");
  return method.function()(evaluation, {.positional = {width}, .named = {}});
}

Value absolute(Evaluation& evaluation, const Value& input, ArgumentReader&) {
  const bool minus = input.is_number() && input.real() < 0;
  return negated(evaluation, input, minus);
}

Value to_list(Evaluation& evaluation, const Value& input, ArgumentReader&) {
  return evaluation.checked_list(elements_of(evaluation, input));
}

constexpr BuiltIn kFilters[] = {
    {"trim", trim},
    {"tojson", tojson},
    {"length", length},
    {"count", length},
    {"join", join},
    {"default", default_value},
    {"d", default_value},
    {"first", first},
    {"last", last},
    {"list", to_list},
    {"replace", replace},
    {"indent", indent},
    {"int", to_integer},
    {"float", to_float},
    {"items", items},
    {"reverse", reverse},
    {"sort", sort},
    {"unique", unique},
    {"abs", absolute},
    {"string", [](Evaluation& e, const Value& input, ArgumentReader&) { return Value(text_of(e, input)); }},
    {"safe", [](Evaluation& e, const Value& input, ArgumentReader&) { return Value(text_of(e, input)); }},
    {"upper",
     [](Evaluation& e, const Value& input, ArgumentReader&) { return Value(upper(e, text_of(e, input))); }},
    {"lower",
     [](Evaluation& e, const Value& input, ArgumentReader&) { return Value(lower(e, text_of(e, input))); }},
    {"capitalize", [](Evaluation& e, const Value& input,
                      ArgumentReader&) { return Value(capitalized(e, text_of(e, input))); }},
    {"title", [](Evaluation& e, const Value& input,
                 ArgumentReader&) { return Value(title_of_words(e, text_of(e, input))); }},
    {"sum", sum},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"round", rounded},
    {"dictsort", dictsort},
    {"center", center},
};

// The arguments after the first `count`.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments out = arguments;
  out.positional.erase(out.positional.begin(), out.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return out;
}

std::string name_in(Evaluation& evaluation, std::string_view filter, const Value& value) {
  if (!value.is_text()) evaluation.fail(fmt::format("{} needs a name, not a {}", filter, type_name(value)));
  return value.text().bytes();
}

Value map_attribute(Evaluation& evaluation, const Value& input, const Arguments& given) {
  ArgumentReader arguments(evaluation, "map", given);
  const Value path = arguments.take("attribute"), otherwise = arguments.take("default", Value());
  arguments.finish();
  List out;
  for (const Value& element : elements_of(evaluation, input)) {
    Value part = path_of(evaluation, element, path);
    if (part.is_undefined() && !otherwise.is_none()) {
      out.push_back(otherwise);
    } else {
      out.push_back(std::move(part));
    }
  }
  return Value::generator(std::move(out));
}

Value map(Evaluation& evaluation, const Value& input, const Arguments& given) {
  if (given.positional.empty()) return map_attribute(evaluation, input, given);
  const std::string filter = name_in(evaluation, "map", given.positional[0]);
  const Arguments rest = rest_of(given, 1);
  List out;
  for (const Value& element : elements_of(evaluation, input))
    out.push_back(apply_filter(evaluation, filter, element, rest));
  return Value::generator(std::move(out));
}

template <bool by_attribute, bool keeps>
Value select(Evaluation& evaluation, const Value& input, const Arguments& given) {
  const std::size_t before_test = by_attribute ? 1 : 0;
  if (given.positional.size() < before_test) evaluation.fail("selectattr needs an attribute");
  const bool has_test = given.positional.size() > before_test;
  const std::string test = has_test ? name_in(evaluation, "select", given.positional[before_test]) : "";
  const Arguments rest = has_test ? rest_of(given, before_test + 1) : Arguments{};
  List out;
  for (const Value& element : elements_of(evaluation, input)) {
    const Value part = by_attribute ? path_of(evaluation, element, given.positional[0]) : element;
    const bool holds = has_test ? apply_test(evaluation, test, part, rest) : truth(part);
    if (holds == keeps) out.push_back(element);
  }
  return Value::generator(std::move(out));
}

// input % arguments.
Value format(Evaluation& evaluation, const Value& input, const Arguments& given) {
  if (!given.named.empty() && !given.positional.empty())
    evaluation.fail("format: values by position or by name, not both");
  Entries named;
  for (const auto& [name, value] : given.named) named.emplace_back(Text(name), value);
  const Value values = named.empty() ? Value::tuple(given.positional) : Value::dict(std::move(named));
  return percent_formatted(evaluation, text_of(evaluation, input), values);
}

constexpr Forwarding kForwarding[] = {{"map", map},
                                      {"format", format},
                                      {"select", select<false, true>},
                                      {"reject", select<false, false>},
                                      {"selectattr", select<true, true>},
                                      {"rejectattr", select<true, false>}};

}  // namespace

Value apply_filter(Evaluation& evaluation, std::string_view name, const Value& input,
                   const Arguments& arguments) {
  const Evaluation::Nesting nesting(evaluation);
  for (const BuiltIn& filter : kFilters) {
    if (filter.name != name) continue;
    ArgumentReader reader(evaluation, name, arguments);
    Value out = filter.apply(evaluation, input, reader);
    reader.finish();
    return out;
  }
  for (const Forwarding& filter : kForwarding) {
    if (filter.name == name) return evaluation.checked(filter.apply(evaluation, input, arguments));
  }
  evaluation.fail(fmt::format("the filter {} is not supported", in_quotes(name)));
}

}  // namespace serval::jinja
