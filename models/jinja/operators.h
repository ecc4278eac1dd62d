// What Python's operators do with values. Each fails where Python raises.
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

// The elements of what Python can iterate over: a list, the keys of a dict, the characters of a text; nothing
// for what is undefined.
List elements_of(Evaluation& evaluation, const Value& value);

// a.key and a[key]: undefined where there is no such thing.
Value attribute(Evaluation& evaluation, const Value& object, std::string_view name);
Value item(Evaluation& evaluation, const Value& object, const Value& key);

// Bounds of a slice are none where they are absent.
Value slice(Evaluation& evaluation, const Value& object, const Value& begin, const Value& end,
            const Value& step);

}  // namespace serval::jinja
