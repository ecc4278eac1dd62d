// Methods of Python's str and dict.
#pragma once

#include <optional>
#include <string_view>

#include "models/jinja/value.h"

namespace serval::jinja {

// The method `name` bound to `object`; nullopt if there is none.
std::optional<Value> find_method(const Value& object, std::string_view name);

// The lines of a text, as str.splitlines; `with_ends` keeps the line ends.
List lines_of(const Text& text, bool with_ends);

}  // namespace serval::jinja
