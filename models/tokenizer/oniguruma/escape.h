// Escapes for one character or a set of characters, inside and outside brackets.
#pragma once

#include <cstdint>
#include <optional>

#include "models/tokenizer/oniguruma/character_set.h"
#include "models/tokenizer/oniguruma/cursor.h"

namespace serval::oniguruma {

// Call after a backslash. Takes one of \n \t \r \f \v \a \e \xHH \x{…} \uHHHH or an escaped character other
// than a letter or digit. For other escapes, takes nothing and returns nullopt.
std::optional<std::uint32_t> take_character_escape(Cursor& cursor);

// Call after a backslash. Takes one of \s \d \w \h \p{…} or their complements. For other escapes, takes
// nothing and returns nullopt.
std::optional<CharacterSet> take_set_escape(Cursor& cursor, bool in_brackets);

// Call after a backslash. Throws the error for an unsupported escape.
[[noreturn]] void refuse_escape(Cursor& cursor);

}  // namespace serval::oniguruma
