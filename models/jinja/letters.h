// Case changes and character classes of Python's str. Case changes use Unicode's full mappings, as in Python:
// upper() of "ß" is "SS", and lower() of a sigma at the end of a word is "ς".
#pragma once

#include <string_view>

#include "models/jinja/evaluation.h"
#include "models/jinja/text.h"

namespace serval::jinja {

Text upper(Evaluation& evaluation, const Text& text);
Text lower(Evaluation& evaluation, const Text& text);
Text capitalized(Evaluation& evaluation, const Text& text);
Text with_case_swapped(Evaluation& evaluation, const Text& text);
// str.title(): title case after each character that has no case.
Text title(Evaluation& evaluation, const Text& text);
// Jinja's filter `title`: upper case after white space and each of "-({[<".
Text title_of_words(Evaluation& evaluation, const Text& text);

// str.isNAME(). False for an empty text, except is_ascii().
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
