// From a JSON schema (draft 2020-12, the part that docs/api.md lists) to a grammar of texts that are valid
// under it.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

inline constexpr size_t kMaxSchemaBytes = size_t{256} << 10;

// Every text of the grammar is valid; not every valid text is one: properties come in the order of the
// schema, those that it does not name only where `additionalProperties` says more than false. Throws
// Error(kUsage), one line "json_schema: #/properties/a: …": for what is no schema, for a keyword that is not
// supported, by name, and for a schema that nothing is valid under or that needs too many states.
Grammar compile_json_schema(std::string_view schema);

// Of any JSON object.
Grammar json_object_grammar();

}  // namespace serval::grammar
