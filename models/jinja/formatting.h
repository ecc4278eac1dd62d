// Python's two ways to put values into a text.
#pragma once

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// `format % values`: a tuple's elements in their order, a dict's by their names, or one value.
Text percent_formatted(Evaluation& evaluation, const Text& format, const Value& values);

// format.format(…), as the sandbox of Jinja has it.
Text brace_formatted(Evaluation& evaluation, const Text& format, const Arguments& given);

// With `fill` at its ends, as long as `width` characters. Alignment as in a format: '<', '>' or '^'.
Text padded(Evaluation& evaluation, const Text& text, std::int64_t width, const Text& fill, char alignment);

}  // namespace serval::jinja
