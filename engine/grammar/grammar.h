// A language of byte strings as an automaton with a stack: rules, each a graph of states, that call each
// other.
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
// All states of a grammar together: more is refused.
inline constexpr size_t kMaxStates = 50'000;

// Reads one byte of [first, last].
struct ByteEdge {
  uint8_t first, last;
  StateId to;
};
// Reads what `rule` describes.
struct CallEdge {
  RuleId rule;
  StateId to;
};
// Reads what `body` describes, `least` to `most` times, and goes on at `exit`.
struct Loop {
  RuleId body;
  uint32_t least, most;  // most: kNoLimit, or at least `least`
  StateId exit;
  bool is_text;  // the body is a character of a JSON string
};

// Of a rule's graph. It may go on along any of its edges.
struct State {
  std::vector<ByteEdge> bytes;
  std::vector<CallEdge> calls;
  std::vector<StateId> jumps;  // without reading anything
  std::optional<Loop> loop;    // then it has nothing else
  bool accepts = false;        // the rule may end here
};

// Built once, then only read; reading is thread-safe.
class Grammar {
 public:
  // Throws Error(kUsage) beyond kMaxStates.
  StateId add_state();
  // A state at which a rule ends.
  StateId add_end();
  RuleId add_rule(StateId start);
  void set_top(RuleId rule) { top_ = rule; }

  void byte(StateId from, uint8_t first, uint8_t last, StateId to);
  // Shares the states of literals that begin alike at `from`, and branch into nothing else.
  void literal(StateId from, std::string_view text, StateId to);
  void call(StateId from, RuleId rule, StateId to) { states_[from].calls.push_back({rule, to}); }
  void jump(StateId from, StateId to) { states_[from].jumps.push_back(to); }
  void loop(StateId from, const Loop& loop) { states_[from].loop = loop; }
  void accept(StateId state) { states_[state].accepts = true; }

  // To be called when all is there. Drops what cannot lead to an end, so that whatever has been read can be
  // completed. Throws Error(kUsage) where nothing at all can, and for a rule that calls itself before it has
  // read a byte.
  void finish();

  // Drops edges for other bytes; finish() again.
  void keep_bytes(const std::function<bool(uint8_t)>& keeps);

  const State& state(StateId id) const { return states_[id]; }
  StateId start(RuleId rule) const { return starts_[rule]; }
  RuleId top() const { return top_; }
  size_t num_states() const { return states_.size(); }

 private:
  std::vector<State> states_;
  std::vector<StateId> starts_;  // of the rules
  RuleId top_ = 0;
};

}  // namespace serval::grammar
