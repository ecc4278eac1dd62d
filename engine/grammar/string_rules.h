// Grammar rules for JSON strings that match a pattern.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/grammar/json_rules.h"
#include "engine/grammar/pattern.h"

namespace serval::grammar {

// A string in quotes with `least` to `most` characters (kNoLimit: any number) that the automaton accepts.
// Only characters that need an escape are escaped. Throws Error(kUsage) if pattern and length need too many
// states.
RuleId pattern_string(JsonRules& rules, const PatternAutomaton& automaton, uint32_t least, uint32_t most);

}  // namespace serval::grammar
