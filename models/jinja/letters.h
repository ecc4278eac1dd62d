// Python's str about letters and digits: changes of case, and questions. Full mappings of Unicode, as Python
// has them: "ß" becomes "SS", and a sigma at the end of a word "ς".
#pragma once

#include <string_view>

#include "models/jinja/evaluation.h"
#include "models/jinja/text.h"

namespace serval::jinja {

Text upper(Evaluation& evaluation, const Text& text);
Text lower(Evaluation& evaluation, const Text& text);
Text capitalized(Evaluation& evaluation, const Text& text);
Text with_case_swapped(Evaluation& evaluation, const Text& text);
// str.title(): a capital after each character that is no letter.
Text title(Evaluation& evaluation, const Text& text);
// The filter of this name: a capital after white space and each of "-({[<".
Text title_of_words(Evaluation& evaluation, const Text& text);

// str.isNAME(); false for an empty text, but for isascii().
bool is_alpha(std::string_view text);
bool is_alnum(std::string_view text);
bool is_decimal(std::string_view text);
bool is_digit(std::string_view text);
bool is_numeric(std::string_view text);
bool is_space(std::string_view text);
bool is_ascii(std::string_view text);
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
bool is_title(std::string_view text);

}  // namespace serval::jinja
