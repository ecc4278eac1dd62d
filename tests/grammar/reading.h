// What a grammar makes of texts.
#pragma once

#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::testing {

// A text that the grammar describes, whole.
bool reads(const grammar::Grammar& grammar, std::string_view text);
// A text that can go on to be one.
bool begins(const grammar::Grammar& grammar, std::string_view text);

bool is_valid(const std::string& schema, std::string_view text);
// Why a schema is refused; "accepted" if it is not.
std::string refusal_of(const std::string& schema);

}  // namespace serval::testing
