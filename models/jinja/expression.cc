#include "models/jinja/expression.h"

#include <algorithm>
#include <fmt/format.h>

#include "models/jinja/filters.h"
#include "models/jinja/operators.h"
#include "models/jinja/tests.h"

namespace serval::jinja {
namespace {

Value evaluated(const ExpressionPointer& expression, Evaluation& evaluation) {
  return expression ? expression->evaluate(evaluation) : Value();
}

}  // namespace

Arguments ArgumentList::evaluate(Evaluation& evaluation) const {
  Arguments out;
  for (const ExpressionPointer& argument : positional)
    out.positional.push_back(argument->evaluate(evaluation));
  for (const auto& [name, argument] : named) out.named.emplace_back(name, argument->evaluate(evaluation));
  return out;
}

Value Name::compute(Evaluation& evaluation) const {
  const Value* found = evaluation.scope->find(name_);
  return found == nullptr ? Value(Undefined{"'" + name_ + "'"}) : *found;
}

Value ListLiteral::compute(Evaluation& evaluation) const {
  List elements;
  for (const ExpressionPointer& element : elements_) elements.push_back(element->evaluate(evaluation));
  Value list = evaluation.checked_list(elements);
  return tuple_ ? Value::tuple(std::move(elements)) : list;
}

Value DictLiteral::compute(Evaluation& evaluation) const {
  Entries entries;
  for (const auto& [key, value] : entries_) {
    Value name = key->evaluate(evaluation);
    const auto same = [&name](const auto& entry) { return equal(entry.first, name); };
    evaluation.charge(entries.size());
    const auto found = std::find_if(entries.begin(), entries.end(), same);
    Value element = value->evaluate(evaluation);
    if (found == entries.end()) {
      entries.emplace_back(std::move(name), std::move(element));
    } else {
      found->second = std::move(element);
    }
  }
  return evaluation.checked_dict(std::move(entries));
}

Value Member::compute(Evaluation& evaluation) const {
  const Value object = object_->evaluate(evaluation);
  const Value key = key_->evaluate(evaluation);
  return dotted_ && key.is_text() ? attribute(evaluation, object, key.text().bytes())
                                  : item(evaluation, object, key);
}

Value Slice::compute(Evaluation& evaluation) const {
  const Value object = object_->evaluate(evaluation);
  return slice(evaluation, object, evaluated(begin_, evaluation), evaluated(end_, evaluation),
               evaluated(step_, evaluation));
}

Value Call::compute(Evaluation& evaluation) const {
  const Value function = function_->evaluate(evaluation);
  if (function.is_undefined()) evaluation.fail(fmt::format("{} is undefined", function.undefined().what));
  if (!function.is_callable()) evaluation.fail(fmt::format("a {} cannot be called", type_name(function)));
  const int line = evaluation.line();
  const Arguments arguments = arguments_.evaluate(evaluation);
  evaluation.at_line(line);
  return function.function()(evaluation, arguments);
}

Value Filter::compute(Evaluation& evaluation) const {
  const int line = evaluation.line();
  const Value input = evaluated(input_, evaluation);
  const Arguments arguments = arguments_.evaluate(evaluation);
  evaluation.at_line(line);
  return apply_filter(evaluation, name_, input, arguments);
}

Value Test::compute(Evaluation& evaluation) const {
  const int line = evaluation.line();
  const Value input = input_->evaluate(evaluation);
  const Arguments arguments = arguments_.evaluate(evaluation);
  evaluation.at_line(line);
  return apply_test(evaluation, name_, input, arguments);
}

Value Binary::compute(Evaluation& evaluation) const {
  const int line = evaluation.line();
  const Value left = left_->evaluate(evaluation);
  const Value right = right_->evaluate(evaluation);
  evaluation.at_line(line);
  return binary(evaluation, sign_, left, right);
}

Value Negation::compute(Evaluation& evaluation) const {
  return negated(evaluation, operand_->evaluate(evaluation), minus_);
}

Value Logical::compute(Evaluation& evaluation) const {
  Value left = left_->evaluate(evaluation);
  return truth(left) == is_and_ ? right_->evaluate(evaluation) : left;
}

Value Comparison::compute(Evaluation& evaluation) const {
  const int line = evaluation.line();
  Value left = first_->evaluate(evaluation);
  for (const auto& [sign, operand] : rest_) {
    Value right = operand->evaluate(evaluation);
    evaluation.at_line(line);
    if (!compare(evaluation, sign, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Conditional::compute(Evaluation& evaluation) const {
  if (truth(condition_->evaluate(evaluation))) return then_->evaluate(evaluation);
  return otherwise_ ? otherwise_->evaluate(evaluation) : Value(Undefined{"the value of an if without else"});
}

}  // namespace serval::jinja
