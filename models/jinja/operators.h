// Python's operators on values. They fail where Python raises an error.
#pragma once

#include <string_view>

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// + - * / // % ** and ~.
Value binary(Evaluation& evaluation, std::string_view sign, const Value& a, const Value& b);
Value negated(Evaluation& evaluation, const Value& value, bool minus);

// == != < <= > >= in, and "not in".
bool compare(Evaluation& evaluation, std::string_view sign, const Value& a, const Value& b);
bool contains(Evaluation& evaluation, const Value& container, const Value& element);

// The elements that Python iterates over: of a list, the keys of a dict, or the characters of a text. Empty
// for an undefined value. Fails for other values.
List elements_of(Evaluation& evaluation, const Value& value);

// a.name and a[key]; undefined if they do not exist.
Value attribute(Evaluation& evaluation, const Value& object, std::string_view name);
Value item(Evaluation& evaluation, const Value& object, const Value& key);

// a[begin:end:step]; absent bounds are none.
Value slice(Evaluation& evaluation, const Value& object, const Value& begin, const Value& end,
            const Value& step);

}  // namespace serval::jinja
