// Regular expressions of JSON schemas as automata over code points.
//
// Supports this part of ECMA-262: literals, ".", classes, \d \w \s and their complements, groups,
// alternatives, quantifiers (lazy ones match like greedy ones), ^ and $. If engines read a class differently,
// such as \d as the digits of all scripts, only the characters that all of them accept match here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/grammar/utf8_ranges.h"

namespace serval::grammar {

inline constexpr size_t kMaxPatternBytes = 1024;
inline constexpr uint32_t kMaxRepetitions = 1000;

// Where an expression must match: anywhere in a text, as a schema's `pattern`, or the whole of it.
enum class PatternPlace : uint8_t { kAnywhere, kWhole };

// Deterministic. Accepts a text if the expression matches at its place in it.
struct PatternAutomaton {
  struct Edge {
    CodePoints range;
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;  // in ascending order, disjoint
    bool accepts = false;
    bool accepts_all = false;  // accepts every continuation
  };
  std::vector<State> states;  // the first is the start
};

// Limit of the steps of the subset construction, over all patterns of a schema.
inline constexpr size_t kMaxPatternSteps = 20'000'000;

// `pattern` must be UTF-8. Adds its steps to `steps`. Throws Error(kUsage) for unsupported or invalid syntax,
// for more than kMaxPatternSteps steps, and for an automaton that is too large.
PatternAutomaton compile_pattern(std::string_view pattern, size_t& steps,
                                 PatternPlace place = PatternPlace::kAnywhere);
inline PatternAutomaton compile_pattern(std::string_view pattern) {
  size_t steps = 0;
  return compile_pattern(pattern, steps);
}

// True if the automaton accepts `text`, which must be UTF-8.
bool is_found(const PatternAutomaton& automaton, std::string_view text);

// The automaton of texts that both accept. Throws Error(kUsage) if it is too large.
PatternAutomaton intersection(const PatternAutomaton& a, const PatternAutomaton& b);

}  // namespace serval::grammar
