// Regular expressions of JSON schemas as automata over code points.
//
// Of ECMA-262's expressions: literals, ".", classes, \d \w \s and their opposites, groups, alternatives,
// quantifiers (lazy ones are like greedy ones), ^ and $. Where other engines read a class differently, such
// as \d as the digits of all scripts, what is matched here is in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/grammar/utf8_ranges.h"

namespace serval::grammar {

inline constexpr size_t kMaxPatternBytes = 1024;
inline constexpr uint32_t kMaxRepetitions = 1000;

// Deterministic; accepts a whole text if the expression is found in it, as a schema's `pattern` asks.
struct PatternAutomaton {
  struct Edge {
    CodePoints range;
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;  // in order, apart
    bool accepts = false;
    bool accepts_all = false;  // whatever comes
  };
  std::vector<State> states;  // the first is the start
};

// Steps of the search for an automaton's states, of all patterns of a schema.
inline constexpr size_t kMaxPatternSteps = 20'000'000;

// `pattern` is UTF-8; `steps` counts up to kMaxPatternSteps. Throws Error(kUsage) for what is not supported,
// by name, for what is no expression, and for one that needs too large an automaton.
PatternAutomaton compile_pattern(std::string_view pattern, size_t& steps);
inline PatternAutomaton compile_pattern(std::string_view pattern) {
  size_t steps = 0;
  return compile_pattern(pattern, steps);
}

// Whether it accepts `text`, which is UTF-8.
bool is_found(const PatternAutomaton& automaton, std::string_view text);

// Accepts what both accept. Throws Error(kUsage) where that needs too large an automaton.
PatternAutomaton both(const PatternAutomaton& a, const PatternAutomaton& b);

}  // namespace serval::grammar
