// A language of byte strings as a pushdown automaton: rules, each a graph of states, that call each other.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace serval::grammar {

using StateId = uint32_t;
using RuleId = uint32_t;

inline constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();
// Limit of a grammar's states, over all rules.
inline constexpr size_t kMaxStates = 50'000;

// Reads one byte of [first, last].
struct ByteEdge {
  uint8_t first, last;
  StateId to;
};
// Reads a text of `rule`.
struct CallEdge {
  RuleId rule;
  StateId to;
};
// Reads `least` to `most` texts of `body`, then continues at `exit`.
struct Loop {
  RuleId body;
  uint32_t least, most;  // most: kNoLimit, or at least `least`
  StateId exit;
  bool is_text;  // the body is a character of a JSON string
};

// A state of a rule's graph. The automaton may follow any of its edges.
struct State {
  std::vector<ByteEdge> bytes;
  std::vector<CallEdge> calls;
  std::vector<StateId> jumps;  // edges that read nothing
  std::optional<Loop> loop;    // a state with a loop has no edges and does not accept
  bool accepts = false;        // the rule may end here
};

// Build it, call finish(), then only read it. Reading is thread-safe.
class Grammar {
 public:
  // Throws Error(kUsage) beyond kMaxStates.
  StateId add_state();
  // Adds a state that accepts.
  StateId add_end();
  RuleId add_rule(StateId start);
  void set_top(RuleId rule) { top_ = rule; }

  void byte(StateId from, uint8_t first, uint8_t last, StateId to);
  // Adds states that read `text`. Literals from the same state share the states of their common prefix.
  void literal(StateId from, std::string_view text, StateId to);
  void call(StateId from, RuleId rule, StateId to) { states_[from].calls.push_back({rule, to}); }
  void jump(StateId from, StateId to) { states_[from].jumps.push_back(to); }
  void loop(StateId from, const Loop& loop) { states_[from].loop = loop; }
  void accept(StateId state) { states_[state].accepts = true; }

  // Adds the rules of another grammar. Returns its top rule. Throws Error(kUsage) beyond kMaxStates.
  RuleId append(const Grammar& other);

  // Call after all rules are added. Removes edges that cannot lead to an end, so that every text read so far
  // can be completed. Throws Error(kUsage) if no text can be completed, and for a rule that can call itself
  // before it reads a byte.
  void finish();

  // Removes the bytes for which `keeps` is false from all edges. Call finish() again afterwards.
  void keep_bytes(const std::function<bool(uint8_t)>& keeps);

  const State& state(StateId id) const { return states_[id]; }
  StateId start(RuleId rule) const { return starts_[rule]; }
  RuleId top() const { return top_; }
  size_t num_states() const { return states_.size(); }

 private:
  std::vector<State> states_;
  std::vector<StateId> starts_;  // start state of each rule
  RuleId top_ = 0;
};

}  // namespace serval::grammar
