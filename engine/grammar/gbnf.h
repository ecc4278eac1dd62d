// Compiles a grammar in GBNF, the notation of llama.cpp, into an automaton.
#pragma once

#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

// The texts that the rule `root` describes. Rules may refer to themselves to any depth, but not before they
// have read a character. Throws Error(kUsage) with one line "grammar: line 3, column 7: …" for what
// parse_gbnf() refuses, for left recursion, for a `root` that no finite text matches, for a rule with too
// many alternatives at its beginning, and beyond kMaxStates.
Grammar compile_gbnf(std::string_view text);

}  // namespace serval::grammar
