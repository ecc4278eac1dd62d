// Writes texts of a grammar, with a small vocabulary: all bytes, and pieces of JSON and other text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::fuzz {

// `picks`: bytes that choose the tokens. Returns the text if it is complete. Aborts if a text can neither
// continue nor end.
std::optional<std::string> write_text(grammar::Grammar grammar, std::string_view picks);

}  // namespace serval::fuzz
