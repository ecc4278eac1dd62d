// Jinja's tests: value is name(arguments).
#pragma once

#include <string_view>

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// Fails for an unknown test.
bool apply_test(Evaluation& evaluation, std::string_view name, const Value& input,
                const Arguments& arguments);

}  // namespace serval::jinja
