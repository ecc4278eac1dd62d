// Rules for JSON strings that a pattern or a list describes.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/grammar/json_rules.h"
#include "engine/grammar/pattern.h"

namespace serval::grammar {

// A string of `least` to `most` characters (kNoLimit: any number) that the automaton accepts, in quotes.
// Characters that must be escaped are, others never are. Throws Error(kUsage) where both together need too
// many states.
RuleId pattern_string(JsonRules& rules, const PatternAutomaton& automaton, uint32_t least, uint32_t most);

}  // namespace serval::grammar
