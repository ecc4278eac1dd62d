#include "engine/grammar/grammar.h"

#include <algorithm>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::grammar {

StateId Grammar::add_state() {
  if (states_.size() >= kMaxStates)
    throw Error(ErrorKind::kUsage, fmt::format("needs more than {} states", kMaxStates));
  states_.emplace_back();
  return static_cast<StateId>(states_.size() - 1);
}

StateId Grammar::add_end() {
  const StateId end = add_state();
  accept(end);
  return end;
}

RuleId Grammar::add_rule(StateId start) {
  starts_.push_back(start);
  return static_cast<RuleId>(starts_.size() - 1);
}

void Grammar::byte(StateId from, uint8_t first, uint8_t last, StateId to) {
  states_[from].bytes.push_back({first, last, to});
}

void Grammar::literal(StateId from, std::string_view text, StateId to) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte_read = static_cast<uint8_t>(text[i]);
    if (i + 1 == text.size()) return byte(from, byte_read, byte_read, to);
    const auto& edges = states_[from].bytes;
    const auto same = std::ranges::find_if(
        edges, [&](const ByteEdge& e) { return e.first == byte_read && e.last == byte_read && e.to != to; });
    const bool shared = same != edges.end();
    const StateId next = shared ? same->to : add_state();
    if (!shared) byte(from, byte_read, byte_read, next);
    from = next;
  }
  jump(from, to);
}

RuleId Grammar::append(const Grammar& other) {
  if (states_.size() + other.states_.size() > kMaxStates)
    throw Error(ErrorKind::kUsage, fmt::format("needs more than {} states", kMaxStates));
  const auto first_state = static_cast<StateId>(states_.size());
  const auto first_rule = static_cast<RuleId>(starts_.size());
  for (State s : other.states_) {
    for (ByteEdge& edge : s.bytes) edge.to += first_state;
    for (CallEdge& edge : s.calls) edge = {edge.rule + first_rule, edge.to + first_state};
    for (StateId& to : s.jumps) to += first_state;
    if (s.loop) {
      s.loop->body += first_rule;
      s.loop->exit += first_state;
    }
    states_.push_back(std::move(s));
  }
  for (const StateId start : other.starts_) starts_.push_back(start + first_state);
  return other.top_ + first_rule;
}

void Grammar::keep_bytes(const std::function<bool(uint8_t)>& keeps) {
  for (State& s : states_) {
    std::vector<ByteEdge> kept;
    for (const ByteEdge& edge : s.bytes) {
      for (uint32_t b = edge.first; b <= edge.last; ++b) {
        const auto byte_kept = static_cast<uint8_t>(b);
        if (!keeps(byte_kept)) continue;
        const bool goes_on =
            b > edge.first && !kept.empty() && kept.back().to == edge.to && kept.back().last + 1U == b;
        if (goes_on) {
          kept.back().last = byte_kept;
        } else {
          kept.push_back({byte_kept, byte_kept, edge.to});
        }
      }
    }
    s.bytes = std::move(kept);
  }
}

namespace {

// The states from which their rule's end can be reached: by all edges (`reads_bytes`), or without reading a
// byte.
class Ends {
 public:
  Ends(const Grammar& grammar, bool reads_bytes)
      : grammar_(grammar), reads_bytes_(reads_bytes), reaches_(grammar.num_states(), false) {
    find_dependents();
    std::vector<StateId> open;
    const auto visit = [&](StateId s) {
      if (reaches_[s] || !leads_on(grammar_.state(s))) return;
      reaches_[s] = true;
      open.push_back(s);
    };
    for (StateId s = 0; s < grammar.num_states(); ++s) visit(s);
    while (!open.empty()) {
      const StateId reached = open.back();
      open.pop_back();
      for (const StateId s : dependents_[reached]) visit(s);
    }
  }
  bool from(StateId state) const { return reaches_[state]; }
  bool of(RuleId rule) const { return reaches_[grammar_.start(rule)]; }

 private:
  bool leads_on(const State& s) const {
    if (s.accepts) return true;
    if (s.loop) return from(s.loop->exit) && (s.loop->least == 0 || of(s.loop->body));
    const auto byte_leads = [&](const ByteEdge& e) { return reads_bytes_ && from(e.to); };
    return std::ranges::any_of(s.bytes, byte_leads) ||
           std::ranges::any_of(s.calls, [&](const CallEdge& e) { return of(e.rule) && from(e.to); }) ||
           std::ranges::any_of(s.jumps, [&](StateId to) { return from(to); });
  }
  // dependents_[s]: the states whose leads_on() depends on s.
  void find_dependents() {
    dependents_.resize(grammar_.num_states());
    for (StateId id = 0; id < grammar_.num_states(); ++id) {
      const auto depends_on = [&](StateId to) {
        if (dependents_[to].empty() || dependents_[to].back() != id) dependents_[to].push_back(id);
      };
      const State& s = grammar_.state(id);
      for (const ByteEdge& e : s.bytes) depends_on(e.to);
      for (const StateId to : s.jumps) depends_on(to);
      for (const CallEdge& e : s.calls) {
        depends_on(e.to);
        depends_on(grammar_.start(e.rule));
      }
      if (!s.loop) continue;
      depends_on(s.loop->exit);
      depends_on(grammar_.start(s.loop->body));
    }
  }

  const Grammar& grammar_;
  const bool reads_bytes_;
  std::vector<bool> reaches_;
  std::vector<std::vector<StateId>> dependents_;
};

// Searches for a rule that can call itself without reading a byte.
class CycleSearch {
 public:
  CycleSearch(const Grammar& grammar, const Ends& empty)
      : grammar_(grammar), empty_(empty), colours_(grammar.num_states(), Colour::kNew) {}

  // Depth-first search without recursion, because a deep grammar would overflow the stack.
  bool found_from(StateId root) {
    std::vector<Visit> path;
    enter(root, path);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next == visit.to.size()) {
        colours_[visit.state] = Colour::kDone;
        path.pop_back();
        continue;
      }
      const StateId to = visit.to[visit.next++];
      if (colours_[to] == Colour::kOpen) return true;
      if (colours_[to] == Colour::kNew) enter(to, path);
    }
    return false;
  }

 private:
  enum class Colour : uint8_t { kNew, kOpen, kDone };
  struct Visit {
    StateId state;
    std::vector<StateId> to;
    size_t next = 0;
  };

  void enter(StateId state, std::vector<Visit>& path) {
    if (colours_[state] != Colour::kNew) return;
    colours_[state] = Colour::kOpen;
    path.push_back({state, without_a_byte(grammar_.state(state))});
  }
  std::vector<StateId> without_a_byte(const State& s) const {
    std::vector<StateId> to = s.jumps;
    for (const CallEdge& e : s.calls) {
      to.push_back(grammar_.start(e.rule));
      if (empty_.of(e.rule)) to.push_back(e.to);
    }
    if (!s.loop) return to;
    to.push_back(s.loop->exit);
    if (s.loop->most > 0) to.push_back(grammar_.start(s.loop->body));
    return to;
  }

  const Grammar& grammar_;
  const Ends& empty_;
  std::vector<Colour> colours_;
};

}  // namespace

void Grammar::finish() {
  constexpr bool kReadsBytes = true;
  const Ends ends(*this, kReadsBytes);
  if (!ends.of(top_)) throw Error(ErrorKind::kUsage, "no finite value matches it");
  for (State& s : states_) {
    std::erase_if(s.bytes, [&](const ByteEdge& e) { return !ends.from(e.to); });
    std::erase_if(s.calls, [&](const CallEdge& e) { return !ends.of(e.rule) || !ends.from(e.to); });
    std::erase_if(s.jumps, [&](StateId to) { return !ends.from(to); });
    if (s.loop && !ends.of(s.loop->body)) s.loop->most = 0;
  }
  const Ends empty(*this, !kReadsBytes);
  CycleSearch cycles(*this, empty);
  for (const StateId start : starts_) {
    if (ends.from(start) && cycles.found_from(start))
      throw Error(ErrorKind::kUsage, "refers to itself with nothing in between");
  }
}

}  // namespace serval::grammar
