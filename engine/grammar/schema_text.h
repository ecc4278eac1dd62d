// The text of a JSON schema as a tree that keeps what nlohmann's own would lose: the order of members, and
// numbers as they are written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

#include "engine/grammar/decimal.h"

namespace serval::grammar {

// A number that is no integer of 64 bits as it is written is a binary value of its text: JSON has no others.
using SchemaJson = nlohmann::ordered_json;

// `text` is JSON, and its nesting is bounded.
SchemaJson parse_schema_text(std::string_view text);

bool is_number(const SchemaJson& value);
// None for other values, and for numbers of too many digits.
std::optional<Decimal> decimal_of(const SchemaJson& value);
// Of a type of JSON Schema: 1.0 and 1e3 are integers.
bool is_integer(const SchemaJson& value);
// As JSON Schema has it: numbers by what they are worth, objects whatever the order of their members.
bool are_equal(const SchemaJson& a, const SchemaJson& b);

// JSON text of a value: numbers as they were written. `as_integers`: those that are integers have neither
// point nor exponent.
std::string spelling_of(const SchemaJson& value, bool as_integers = false);

}  // namespace serval::grammar
