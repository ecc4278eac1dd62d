// Methods of Python's str and dict.
#pragma once

#include <optional>
#include <string_view>

#include "models/jinja/value.h"

namespace serval::jinja {

// The method bound to `object`; none where there is none of that name.
std::optional<Value> find_method(const Value& object, std::string_view name);

// Lines of a text, without or with their ends, as str.splitlines.
List lines_of(const Text& text, bool with_ends);

}  // namespace serval::jinja
