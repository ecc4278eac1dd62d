#include "models/jinja/evaluation.h"

#include <fmt/format.h>

#include "vm/base/error.h"

namespace serval::jinja {
namespace {

bool is_allowed_in_container(const Value& value) {
  return !value.is_name_space() && !value.is_callable();
}

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto found = scope->variables_.find(name);
    if (found != scope->variables_.end()) return &found->second;
  }
  return nullptr;
}

void Evaluation::fail(std::string_view what) const {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: line {}: {}", where_, line_, what));
}

void Evaluation::charge(std::size_t work) {
  if (work > work_left_) fail("takes too long");
  work_left_ -= work;
}

void Evaluation::count_iteration() {
  if (++iterations_ > limits_.iterations) fail(fmt::format("loops more than {} times", limits_.iterations));
}

Value Evaluation::checked(Value value) {
  if (value.depth() > limits_.value_depth)
    fail(fmt::format("lists and dicts nested deeper than {}", limits_.value_depth));
  if (value.weight() > limits_.output_bytes)
    fail(fmt::format("a value of more than {} bytes", limits_.output_bytes));
  constexpr std::size_t kWorkForSharing = 1 << 16;
  charge(std::min(value.weight(), kWorkForSharing));
  return value;
}

Value Evaluation::checked_list(List elements) {
  for (const Value& element : elements) {
    if (!is_allowed_in_container(element))
      fail(fmt::format("a {} in a list is not supported", type_name(element)));
  }
  charge(elements.size() * sizeof(Value));
  return checked(Value::list(std::move(elements)));
}

Value Evaluation::checked_dict(Entries entries) {
  for (const auto& [key, value] : entries) {
    if (key.is_list() || key.is_dict() || !is_allowed_in_container(key))
      fail(fmt::format("a {} as the key of a dict is not supported", type_name(key)));
    if (!is_allowed_in_container(value))
      fail(fmt::format("a {} in a dict is not supported", type_name(value)));
  }
  charge(entries.size() * sizeof(Value));
  return checked(Value::dict(std::move(entries)));
}

void Evaluation::write(const Text& text) {
  charge(text.size());
  if (text.size() > limits_.output_bytes - output_.size())
    fail(fmt::format("writes more than {} bytes", limits_.output_bytes));
  output_.append(text);
}

Evaluation::Nesting::Nesting(Evaluation& evaluation) : evaluation_(evaluation) {
  constexpr std::size_t kWorkOfAnExpression = 32;
  evaluation.charge(kWorkOfAnExpression);
  if (evaluation.depth_ >= evaluation.limits_.evaluation_depth)
    evaluation.fail(fmt::format("nested deeper than {}", evaluation.limits_.evaluation_depth));
  ++evaluation.depth_;
}

}  // namespace serval::jinja
