// Translates bracket expressions such as [a-z\d[:punct:]&&[^x]].
#pragma once

#include "models/tokenizer/oniguruma/case_folding.h"
#include "models/tokenizer/oniguruma/character_set.h"
#include "models/tokenizer/oniguruma/cursor.h"

namespace serval::oniguruma {

// Call after the '['. `folding` is null unless (?i) is set.
CharacterSet take_bracket(Cursor& cursor, CaseFolding* folding);

}  // namespace serval::oniguruma
