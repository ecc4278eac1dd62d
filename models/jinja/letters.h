// Python's changes of case. Letters outside ASCII are refused: PCRE2 has no tables for them.
#pragma once

#include "models/jinja/evaluation.h"
#include "models/jinja/text.h"

namespace serval::jinja {

Text upper(Evaluation& evaluation, const Text& text);
Text lower(Evaluation& evaluation, const Text& text);
Text capitalized(Evaluation& evaluation, const Text& text);
// A capital after each character of `before` and at the begin; with no `before`, after all but letters.
Text title(Evaluation& evaluation, const Text& text, std::string_view before = {});

}  // namespace serval::jinja
