// Escapes that mean one character, or one of a set, wherever they stand.
#pragma once

#include <cstdint>
#include <optional>

#include "models/tokenizer/oniguruma/character_set.h"
#include "models/tokenizer/oniguruma/cursor.h"

namespace serval::oniguruma {

// After a backslash. Takes one of \n \t \r \f \v \a \e \xHH \x{…} \uHHHH or an escaped character that is no
// letter or digit; none, and takes nothing, for every other escape.
std::optional<std::uint32_t> take_character_escape(Cursor& cursor);

// After a backslash. Takes one of \s \d \w \h \p{…} and their complements; none, and takes nothing, for every
// other escape.
std::optional<CharacterSet> take_set_escape(Cursor& cursor, bool in_brackets);

// After a backslash: an escape that is neither.
[[noreturn]] void refuse_escape(Cursor& cursor);

}  // namespace serval::oniguruma
