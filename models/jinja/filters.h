// Jinja's filters: value | name(arguments).
#pragma once

#include <string_view>

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// Fails for an unknown filter.
Value apply_filter(Evaluation& evaluation, std::string_view name, const Value& input,
                   const Arguments& arguments);

}  // namespace serval::jinja
