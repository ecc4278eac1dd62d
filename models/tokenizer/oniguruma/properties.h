// Oniguruma's named sets of characters. Oniguruma's tables are of Unicode 16, PCRE2's of Unicode 14. For
// characters of Unicode 14, the sets correct the differences between them. Newer characters count as
// unassigned.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/oniguruma/character_set.h"

namespace serval::oniguruma {

// \p{NAME}: general categories, scripts, and some other properties. Case, spaces, '_' and '-' in the name are
// ignored. nullopt for an unknown name.
std::optional<CharacterSet> property(std::string_view name);

// [:NAME:]; nullopt for an unknown name.
std::optional<CharacterSet> posix_bracket(std::string_view name);

// \s, \d, \h and \w by their letter. In brackets, \w lacks six characters of Latin-1 (for example ² and ½)
// that it has outside.
std::optional<CharacterSet> shorthand(char letter, bool in_brackets);

// All names that property() and posix_bracket() support.
std::vector<std::string> property_names();
std::vector<std::string> posix_bracket_names();

}  // namespace serval::oniguruma
