#include "engine/grammar/regex.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"

#include "engine/grammar/json_rules.h"
#include "engine/grammar/pattern.h"
#include "vm/base/error.h"

namespace serval::grammar {
namespace {

// A state of the grammar for each of the automaton.
Grammar grammar_of(const PatternAutomaton& automaton) {
  Grammar grammar;
  const auto count = static_cast<StateId>(automaton.states.size());
  for (StateId state = 0; state < count; ++state) grammar.add_state();
  for (StateId state = 0; state < count; ++state) {
    const PatternAutomaton::State& from = automaton.states[state];
    if (from.accepts) grammar.accept(state);
    for (const PatternAutomaton::Edge& edge : from.edges)
      add_code_points(grammar, state, edge.range.first, edge.range.last, edge.to);
  }
  grammar.set_top(grammar.add_rule(0));
  grammar.finish();
  return grammar;
}

// "pattern: PROBLEM" → "regex: PROBLEM"
std::string regex_line(std::string_view line) {
  constexpr std::string_view kPattern = "pattern: ";
  if (line.starts_with(kPattern)) line.remove_prefix(kPattern.size());
  return fmt::format("regex: {}", line);
}

}  // namespace

Grammar compile_regex(std::string_view regex) {
  try {
    size_t steps = 0;
    return grammar_of(compile_pattern(regex, steps, PatternPlace::kWhole));
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, regex_line(error.what()));
  }
}

Grammar compile_choice(std::span<const std::string> texts) {
  const auto refuse = [](const std::string& problem) {
    throw Error(ErrorKind::kUsage, "choice: " + problem);
  };
  if (texts.empty()) refuse("empty; expected at least 1 text");
  if (texts.size() > ChoiceLimits::kMaxTexts)
    refuse(fmt::format("{} texts; limit: {}", texts.size(), ChoiceLimits::kMaxTexts));
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  if (bytes > ChoiceLimits::kMaxBytes)
    refuse(fmt::format("{} bytes; limit: {}", bytes, ChoiceLimits::kMaxBytes));
  Grammar grammar;
  try {
    const StateId start = grammar.add_state(), end = grammar.add_end();
    for (const std::string& text : texts) grammar.literal(start, text, end);
    grammar.set_top(grammar.add_rule(start));
    grammar.finish();
  } catch (const Error& error) {
    refuse(error.what());
  }
  return grammar;
}

}  // namespace serval::grammar
