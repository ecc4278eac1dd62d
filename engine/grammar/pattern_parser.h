// From a regular expression to an automaton that may be in several states at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/code_point_set.h"

namespace serval::grammar {

// What ^ and $ read: nothing, but only where the text begins or ends.
inline constexpr uint32_t kTextBegin = kLastCodePoint + 1, kTextEnd = kLastCodePoint + 2;

struct PatternGraph {
  struct Edge {
    CodePointSet set;  // empty: reads nothing; kTextBegin or kTextEnd alone: the same, in their places
    uint32_t to;
  };
  std::vector<std::vector<Edge>> edges;  // of each state
  uint32_t start = 0, end = 0;
};

// Of all texts in which the expression is found. Throws as compile_pattern().
PatternGraph parse_pattern(std::string_view pattern);

[[noreturn]] void refuse_pattern(const std::string& problem);

}  // namespace serval::grammar
