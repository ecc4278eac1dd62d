// Python's two kinds of string formatting.
#pragma once

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// `format % values`: uses a tuple's elements in order, a dict's values by name, or a single value.
Text percent_formatted(Evaluation& evaluation, const Text& format, const Value& values);

// format.format(…), as in Jinja's sandbox.
Text brace_formatted(Evaluation& evaluation, const Text& format, const Arguments& given);

// Pads `text` with `fill` to `width` characters. `alignment` is '<', '>' or '^', as in a format.
Text padded(Evaluation& evaluation, const Text& text, std::int64_t width, const Text& fill, char alignment);

}  // namespace serval::jinja
