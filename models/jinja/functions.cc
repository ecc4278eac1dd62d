#include "models/jinja/functions.h"

#include <array>
#include <fmt/format.h>

#include "models/jinja/arguments.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

Value range(Evaluation& evaluation, const Arguments& given) {
  constexpr std::int64_t kMaxRange = 100'000;  // as in Jinja's sandbox
  ArgumentReader arguments(evaluation, "range", given);
  const std::int64_t first = arguments.take_integer("start", 0);
  const Value second = arguments.take("stop", Value());
  const std::int64_t step = arguments.take_integer("step", 1);
  arguments.finish();
  const std::int64_t begin = second.is_none() ? 0 : first;
  const std::int64_t end = second.is_none() ? first : arguments.integer("stop", second);
  if (step == 0) evaluation.fail("range: step must not be 0");
  List out;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (static_cast<std::int64_t>(out.size()) == kMaxRange)
      evaluation.fail(fmt::format("range: more than {}", kMaxRange));
    out.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return evaluation.checked_list(std::move(out));
}

// The entries of an optional dict, then the named arguments.
Entries entries_of(Evaluation& evaluation, std::string_view function, const Arguments& given) {
  Entries out;
  if (!given.positional.empty()) {
    if (given.positional.size() > 1 || !given.positional[0].is_dict())
      evaluation.fail(fmt::format("{} takes one dict and named arguments", function));
    out = given.positional[0].entries();
  }
  for (const auto& [name, value] : given.named) out.emplace_back(Text(name), value);
  return out;
}

Value dict(Evaluation& evaluation, const Arguments& given) {
  return evaluation.checked_dict(entries_of(evaluation, "dict", given));
}

Value name_space(Evaluation& evaluation, const Arguments& given) {
  const Value checked = evaluation.checked_dict(entries_of(evaluation, "namespace", given));
  Value::Namespace out;
  for (const auto& [name, value] : checked.entries()) {
    if (!name.is_text()) evaluation.fail("namespace: a name must be a str");
    out[name.text().bytes()] = value;
  }
  return Value::name_space(std::move(out));
}

Value raise_exception(Evaluation& evaluation, const Arguments& given) {
  ArgumentReader arguments(evaluation, "raise_exception", given);
  const Text message = to_text(arguments.take("message"));
  arguments.finish();
  evaluation.fail(fmt::format("the template refuses this: {}", in_quotes(message.bytes())));
}

Value strftime_now(Evaluation& evaluation, const Arguments& given) {
  constexpr std::size_t kMaxFormat = 256, kMaxTime = 4096;
  ArgumentReader arguments(evaluation, "strftime_now", given);
  const std::string format = arguments.take_text("format").bytes();
  arguments.finish();
  if (format.size() > kMaxFormat)
    evaluation.fail(fmt::format("strftime_now: a format of more than {} bytes", kMaxFormat));
  std::array<char, kMaxTime> time{};
  const std::tm now = evaluation.clock()();
  const std::size_t size = std::strftime(time.data(), time.size(), format.c_str(), &now);
  return Text(std::string(time.data(), size));
}

}  // namespace

void add_functions(Scope* scope) {
  constexpr std::pair<const char*, Value (*)(Evaluation&, const Arguments&)> kFunctions[] = {
      {"range", range},
      {"dict", dict},
      {"namespace", name_space},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now}};
  for (const auto& [name, call] : kFunctions) scope->set(name, Value::function(name, call));
}

}  // namespace serval::jinja
