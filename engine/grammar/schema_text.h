// A JSON schema's text as a tree. Unlike nlohmann::json it keeps the order of members and the spelling of
// numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

#include "engine/grammar/decimal.h"

namespace serval::grammar {

// A number that is not written as a 64-bit integer is stored as a binary value with its text. JSON has no
// other binary values.
using SchemaJson = nlohmann::ordered_json;

// `text` must be valid JSON of limited nesting.
SchemaJson parse_schema_text(std::string_view text);

bool is_number(const SchemaJson& value);
// Returns nullopt for values that are not numbers, and for numbers with too many digits.
std::optional<Decimal> decimal_of(const SchemaJson& value);
// True if JSON Schema calls it an integer: 1.0 and 1e3 are integers, too.
bool is_integer(const SchemaJson& value);
// Equality of JSON Schema: numbers by value, objects regardless of the order of members.
bool are_equal(const SchemaJson& a, const SchemaJson& b);

// JSON text of a value, with numbers spelled as in the schema. `as_integers`: integers are written without
// point and exponent.
std::string spelling_of(const SchemaJson& value, bool as_integers = false);

}  // namespace serval::grammar
