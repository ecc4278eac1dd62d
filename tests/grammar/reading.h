// Tests texts against a grammar or a schema.
#pragma once

#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::testing {

// True if `text` is a complete text of the grammar.
bool reads(const grammar::Grammar& grammar, std::string_view text);
// True if `text` can be continued to a complete text.
bool begins(const grammar::Grammar& grammar, std::string_view text);

bool is_valid(const std::string& schema, std::string_view text);
// The error that refuses the schema; "accepted" if there is none.
std::string refusal_of(const std::string& schema);

}  // namespace serval::testing
