#include "engine/grammar/string_rules.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "fmt/format.h"

namespace serval::grammar {
namespace {

constexpr uint32_t kFirstPrintable = 0x20;

// The escape of a character that cannot be literal in a string; empty for others.
std::string escape_of(uint32_t code_point) {
  switch (code_point) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code_point < kFirstPrintable ? fmt::format("\\u{:04x}", code_point) : "";
  }
}

// Product of the automaton and a counter of characters. The counter stops at `least` if there is no upper
// limit.
class Product {
 public:
  Product(JsonRules& rules, const PatternAutomaton& automaton, uint32_t least, uint32_t most)
      : rules_(rules), grammar_(rules.grammar()), automaton_(automaton), least_(least), most_(most) {
    closing_ = grammar_.add_state();
    grammar_.byte(closing_, '"', '"', grammar_.add_end());
  }

  RuleId rule() {
    const StateId start = grammar_.add_state();
    grammar_.byte(start, '"', '"', state_of({0, 0}));
    while (!open_.empty()) {
      const auto [place, state] = open_.back();
      open_.pop_back();
      fill(place, state);
    }
    return grammar_.add_rule(start);
  }

 private:
  struct Place {
    uint32_t state, count;
    friend bool operator<(const Place& a, const Place& b) {
      return std::tie(a.state, a.count) < std::tie(b.state, b.count);
    }
  };

  StateId state_of(Place place) {
    if (most_ == kNoLimit) place.count = std::min(place.count, least_);
    const auto found = known_.find(place);
    if (found != known_.end()) return found->second;
    const StateId state = grammar_.add_state();
    known_[place] = state;
    open_.emplace_back(place, state);
    return state;
  }

  void fill(Place place, StateId state) {
    const PatternAutomaton::State& from = automaton_.states[place.state];
    if (from.accepts_all) {
      constexpr bool kIsText = true;
      const uint32_t least = least_ - std::min(least_, place.count);
      const uint32_t most = most_ == kNoLimit ? kNoLimit : most_ - place.count;
      return grammar_.loop(state, {rules_.character(), least, most, closing_, kIsText});
    }
    if (from.accepts && place.count >= least_) grammar_.jump(state, closing_);
    if (place.count >= most_) return;
    for (const PatternAutomaton::Edge& edge : from.edges)
      add_range(state, edge.range, state_of({edge.to, place.count + 1}));
  }

  void add_range(StateId from, CodePoints range, StateId to) {
    for (uint32_t next = range.first; next <= range.last;) {
      const std::string escape = escape_of(next);
      if (!escape.empty()) {
        grammar_.literal(from, escape, to);
        ++next;
        continue;
      }
      uint32_t last = range.last;
      for (const uint32_t other : {uint32_t{'"'}, uint32_t{'\\'}})
        if (other > next) last = std::min(last, other - 1);
      add_code_points(grammar_, from, next, last, to);
      next = last + 1;
    }
  }

  JsonRules& rules_;
  Grammar& grammar_;
  const PatternAutomaton& automaton_;
  const uint32_t least_, most_;
  StateId closing_;
  std::map<Place, StateId> known_;
  std::vector<std::pair<Place, StateId>> open_;
};

}  // namespace

RuleId pattern_string(JsonRules& rules, const PatternAutomaton& automaton, uint32_t least, uint32_t most) {
  return Product(rules, automaton, least, most).rule();
}

}  // namespace serval::grammar
