// Oniguruma's named sets of characters. Where its tables (Unicode 16) and PCRE2's of Unicode 14 give a
// property to different characters of Unicode 14, the difference is made up here; characters newer than
// PCRE2's tables count as unassigned.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/oniguruma/character_set.h"

namespace serval::oniguruma {

// \p{NAME}: general categories, scripts, and some other properties. Case, spaces, '_' and '-' in the name do
// not count. None for a name that is not known here.
std::optional<CharacterSet> property(std::string_view name);

// [:NAME:]
std::optional<CharacterSet> posix_bracket(std::string_view name);

// \s, \d, \h and \w by their letter. In brackets, \w leaves out six characters of Latin-1 (² and ½, say)
// that it has outside.
std::optional<CharacterSet> shorthand(char letter, bool in_brackets);

// Every name that the first two know.
std::vector<std::string> property_names();
std::vector<std::string> posix_bracket_names();

}  // namespace serval::oniguruma
