// Parses a regular expression into a nondeterministic automaton.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/code_point_set.h"
#include "engine/grammar/pattern.h"

namespace serval::grammar {

// Marks of ^ and $, which read nothing and match only at the text's beginning or end.
inline constexpr uint32_t kTextBegin = kLastCodePoint + 1, kTextEnd = kLastCodePoint + 2;

struct PatternGraph {
  struct Edge {
    // Empty: reads nothing. {kTextBegin} or {kTextEnd}: reads nothing and is allowed only at that position.
    CodePointSet set;
    uint32_t to;
  };
  std::vector<std::vector<Edge>> edges;  // edges of each state
  uint32_t start = 0, end = 0;
};

// The automaton of all texts in which the expression matches at its place. Throws as compile_pattern() does.
PatternGraph parse_pattern(std::string_view pattern, PatternPlace place);

[[noreturn]] void refuse_pattern(const std::string& problem);

}  // namespace serval::grammar
