// Compiles a JSON schema (draft 2020-12, the part that docs/api.md lists) into a grammar of valid texts.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

inline constexpr size_t kMaxSchemaBytes = size_t{256} << 10;

// Every text of the grammar is valid, but not every valid text is in the grammar: properties are in the
// schema's order, and other properties are allowed only if `additionalProperties` is present and not false.
// Throws Error(kUsage) with one line "json_schema: #/properties/a: …" for text that is not a schema, for an
// unsupported keyword, and for a schema without valid values or with too many states.
Grammar compile_json_schema(std::string_view schema);

// The grammar of any JSON object.
Grammar json_object_grammar();

}  // namespace serval::grammar
