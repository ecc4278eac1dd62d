#include "models/jinja/statement.h"

#include <algorithm>
#include <fmt/format.h>

#include "models/jinja/filters.h"
#include "models/jinja/operators.h"

namespace serval::jinja {
namespace {

// The variable `loop` in the body of a for.
Value loop_value(const List& elements, std::size_t index) {
  const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
  const std::size_t count = elements.size();
  const auto neighbour = [&](bool exists, std::size_t at) {
    return exists ? elements[at] : Value(Undefined{"the previous or next element of the loop"});
  };
  const auto cycle = [index](Evaluation& evaluation, const Arguments& arguments) {
    if (arguments.positional.empty()) evaluation.fail("loop.cycle needs arguments");
    return arguments.positional[index % arguments.positional.size()];
  };
  Entries entries;
  const auto add = [&entries](const char* name, Value value) {
    entries.emplace_back(Text(name), std::move(value));
  };
  add("index", number(index + 1));
  add("index0", number(index));
  add("revindex", number(count - index));
  add("revindex0", number(count - index - 1));
  add("first", index == 0);
  add("last", index + 1 == count);
  add("length", number(count));
  add("previtem", neighbour(index > 0, index - 1));
  add("nextitem", neighbour(index + 1 < count, index + 1));
  add("cycle", Value::function("cycle", cycle));
  return Value::dict(std::move(entries));
}

}  // namespace

Flow run_body(Evaluation& evaluation, const Body& body) {
  const Evaluation::Nesting nesting(evaluation);
  for (const StatementPointer& statement : body) {
    const Flow flow = statement->run(evaluation);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Flow Data::run(Evaluation& evaluation) const {
  evaluation.write(text_);
  return Flow::kNext;
}

Flow Output::run(Evaluation& evaluation) const {
  const Value value = expression_->evaluate(evaluation);
  evaluation.charge(value.weight());
  evaluation.write(to_text(value));
  return Flow::kNext;
}

Flow If::run(Evaluation& evaluation) const {
  for (const auto& [condition, body] : branches_) {
    if (!condition || truth(condition->evaluate(evaluation))) return run_body(evaluation, body);
  }
  return Flow::kNext;
}

void Target::assign(Evaluation& evaluation, const Value& value) const {
  if (!attribute.empty()) {
    const Value* object = evaluation.scope->find(names[0]);
    if (object == nullptr || !object->is_name_space())
      evaluation.fail(fmt::format("'{}' is not a namespace", names[0]));
    if (value.is_name_space() || value.is_callable())
      evaluation.fail(fmt::format("a {} in a namespace is not supported", type_name(value)));
    object->attributes()[attribute] = value;
    return;
  }
  if (names.size() == 1) return evaluation.scope->set(names[0], value);
  const List parts = elements_of(evaluation, value);
  if (parts.size() != names.size())
    evaluation.fail(fmt::format("{} values for {} names", parts.size(), names.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) evaluation.scope->set(names[i], parts[i]);
}

List For::selected(Evaluation& evaluation) const {
  evaluation.at_line(line_);
  const Value value = elements_->evaluate(evaluation);
  evaluation.at_line(line_);
  List all = elements_of(evaluation, value);
  if (!condition_) return all;
  List out;
  for (const Value& element : all) {
    evaluation.count_iteration();
    const InnerScope scope(evaluation, evaluation.scope);
    target_.assign(evaluation, element);
    if (truth(condition_->evaluate(evaluation))) out.push_back(element);
  }
  return out;
}

Flow For::run(Evaluation& evaluation) const {
  const List elements = selected(evaluation);
  bool completed_one = false;  // as in Jinja, `else` runs unless an iteration reached the end of the body
  for (std::size_t i = 0; i < elements.size(); ++i) {
    evaluation.at_line(line_);
    evaluation.count_iteration();
    InnerScope scope(evaluation, evaluation.scope);
    scope->set("loop", loop_value(elements, i));
    target_.assign(evaluation, elements[i]);
    const Flow flow = run_body(evaluation, body_);
    completed_one |= flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (completed_one) return Flow::kNext;
  const InnerScope scope(evaluation, evaluation.scope);
  return run_body(evaluation, otherwise_);
}

Flow Set::run(Evaluation& evaluation) const {
  const Value value = value_->evaluate(evaluation);
  evaluation.at_line(line_);
  target_.assign(evaluation, value);
  return Flow::kNext;
}

Flow SetBlock::run(Evaluation& evaluation) const {
  Value value;
  {
    const Evaluation::Capture capture(evaluation);
    const InnerScope scope(evaluation, evaluation.scope);
    run_body(evaluation, body_);
    value = capture.text();
  }
  evaluation.at_line(line_);
  for (const auto& [name, arguments] : filters_)
    value = apply_filter(evaluation, name, value, arguments.evaluate(evaluation));
  target_.assign(evaluation, value);
  return Flow::kNext;
}

Flow Macro::run(Evaluation& evaluation) const {
  const Scope* around = evaluation.scope;
  evaluation.scope->set(
      name_, Value::function(name_, [this, around](Evaluation& caller, const Arguments& arguments) {
        return call(caller, around, arguments);
      }));
  return Flow::kNext;
}

Value Macro::call(Evaluation& evaluation, const Scope* around, const Arguments& given) const {
  const Evaluation::Nesting nesting(evaluation);
  if (given.positional.size() > parameters_.size())
    evaluation.fail(fmt::format("{} takes {} arguments at most", name_, parameters_.size()));
  const auto named = [&given](std::string_view name) -> const Value* {
    for (const auto& [key, value] : given.named) {
      if (key == name) return &value;
    }
    return nullptr;
  };
  for (const auto& [key, value] : given.named) {
    const auto is_it = [&key = key](const Parameter& parameter) { return parameter.name == key; };
    if (std::none_of(parameters_.begin(), parameters_.end(), is_it))
      evaluation.fail(fmt::format("{} has no argument {}", name_, key));
  }
  const Evaluation::Capture capture(evaluation);
  InnerScope scope(evaluation, around);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, otherwise] = parameters_[i];
    const Value* value = i < given.positional.size() ? &given.positional[i] : named(name);
    if (value != nullptr) {
      scope->set(name, *value);
    } else {
      scope->set(name, otherwise ? otherwise->evaluate(evaluation) : Value(Undefined{"'" + name + "'"}));
    }
  }
  run_body(evaluation, body_);
  return capture.text();
}

Flow Group::run(Evaluation& evaluation) const {
  const InnerScope scope(evaluation, evaluation.scope);
  return run_body(evaluation, body_);
}

}  // namespace serval::jinja
