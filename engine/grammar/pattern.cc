#include "engine/grammar/pattern.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/grammar/pattern_parser.h"

namespace serval::grammar {
namespace {

constexpr size_t kMaxAutomatonStates = 2000;

using StateSet = std::vector<uint32_t>;  // ascending

// Subset construction: a state of the automaton is a set of states of the graph.
class SubsetSearch {
 public:
  SubsetSearch(PatternGraph graph, size_t& steps)
      : graph_(std::move(graph)), marks_(graph_.edges.size(), 0), steps_(steps) {
    find_pieces();
  }

  PatternAutomaton search() {
    first_ = closure({graph_.start}, {.begins = true});
    sets_.push_back(&first_);  // not in number_of_: only the first state is at the beginning of the text
    automaton_.states.emplace_back();
    for (uint32_t s = 0; s < sets_.size(); ++s) {
      const StateSet from = *sets_[s];
      const StateSet at_end = closure(from, {.begins = s == 0, .ends = true});
      automaton_.states[s].accepts = std::ranges::binary_search(at_end, graph_.end);
      automaton_.states[s].accepts_all = std::ranges::binary_search(from, graph_.end);
      if (automaton_.states[s].accepts_all) continue;
      for (const CodePoints& piece : pieces_) add_edge(s, piece, after(from, piece.first));
    }
    return std::move(automaton_);
  }

 private:
  void step(size_t count) {
    steps_ += count;
    if (steps_ > kMaxPatternSteps) refuse_pattern("the expression is too complicated");
  }

  // Splits the code points into ranges whose members are in the same edges' sets.
  void find_pieces() {
    std::vector<uint32_t> begins = {0, kLastCodePoint + 1};
    for (const auto& edges : graph_.edges) {
      for (const PatternGraph::Edge& e : edges) {
        for (const CodePoints& range : e.set) begins.insert(begins.end(), {range.first, range.last + 1});
      }
    }
    std::ranges::sort(begins);
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    for (size_t i = 0; i + 1 < begins.size() && begins[i + 1] <= kLastCodePoint + 1; ++i)
      pieces_.push_back({begins[i], begins[i + 1] - 1});
  }

  // A position in the text, for ^ and $.
  struct Position {
    bool begins = false, ends = false;
  };
  static bool reads_nothing(const CodePointSet& set, Position at) {
    if (set.empty()) return true;
    return (at.begins && set.front().first == kTextBegin) || (at.ends && set.front().first == kTextEnd);
  }

  StateSet closure(StateSet states, Position at) {
    ++epoch_;
    for (const uint32_t s : states) marks_[s] = epoch_;
    for (size_t i = 0; i < states.size(); ++i) {
      step(graph_.edges[states[i]].size() + 1);
      for (const PatternGraph::Edge& e : graph_.edges[states[i]]) {
        if (!reads_nothing(e.set, at) || marks_[e.to] == epoch_) continue;
        marks_[e.to] = epoch_;
        states.push_back(e.to);
      }
    }
    std::ranges::sort(states);
    return states;
  }

  StateSet after(const StateSet& states, uint32_t code_point) {
    StateSet to;
    ++epoch_;
    for (const uint32_t s : states) {
      step(graph_.edges[s].size() + 1);
      for (const PatternGraph::Edge& e : graph_.edges[s]) {
        const auto reads = [&](const CodePoints& r) { return r.first <= code_point && code_point <= r.last; };
        if (marks_[e.to] == epoch_ || std::ranges::none_of(e.set, reads)) continue;
        marks_[e.to] = epoch_;
        to.push_back(e.to);
      }
    }
    return closure(std::move(to), {});
  }

  uint32_t add(StateSet set) {
    const auto [found, is_new] = number_of_.try_emplace(std::move(set), static_cast<uint32_t>(sets_.size()));
    if (!is_new) return found->second;
    if (sets_.size() >= kMaxAutomatonStates) refuse_pattern("the expression is too complicated");
    sets_.push_back(&found->first);
    automaton_.states.emplace_back();
    return found->second;
  }

  void add_edge(uint32_t from, CodePoints piece, StateSet to) {
    if (to.empty()) return;
    const uint32_t number = add(std::move(to));
    std::vector<PatternAutomaton::Edge>& edges = automaton_.states[from].edges;
    const bool goes_on =
        !edges.empty() && edges.back().to == number && edges.back().range.last + 1 == piece.first;
    if (goes_on) {
      edges.back().range.last = piece.last;
    } else {
      edges.push_back({piece, number});
    }
  }

  PatternGraph graph_;
  std::vector<CodePoints> pieces_;
  std::vector<uint32_t> marks_;
  uint32_t epoch_ = 0;
  size_t& steps_;
  std::map<StateSet, uint32_t> number_of_;
  StateSet first_;
  std::vector<const StateSet*> sets_;
  PatternAutomaton automaton_;
};

// Product construction: a state is a pair of the two automata's states.
class Product {
 public:
  Product(const PatternAutomaton& a, const PatternAutomaton& b) : a_(a), b_(b) {}

  PatternAutomaton make() {
    number_of({0, 0});
    for (size_t i = 0; i < pairs_.size(); ++i) fill(i);
    return std::move(automaton_);
  }

 private:
  using Pair = std::pair<uint32_t, uint32_t>;

  uint32_t number_of(Pair pair) {
    const auto [found, is_new] = number_of_.try_emplace(pair, static_cast<uint32_t>(pairs_.size()));
    if (!is_new) return found->second;
    if (pairs_.size() >= kMaxAutomatonStates)
      refuse_pattern("the expression is too complicated in combination with another");
    pairs_.push_back(pair);
    automaton_.states.emplace_back();
    return found->second;
  }

  // A state that accepts everything has no edges; here it gets a loop to itself.
  static std::vector<PatternAutomaton::Edge> edges_of(const PatternAutomaton& automaton, uint32_t state) {
    const PatternAutomaton::State& from = automaton.states[state];
    return from.accepts_all ? std::vector<PatternAutomaton::Edge>{{{0, kLastCodePoint}, state}} : from.edges;
  }

  void fill(size_t index) {
    const auto [first, second] = pairs_[index];
    const PatternAutomaton::State &a = a_.states[first], &b = b_.states[second];
    PatternAutomaton::State made;
    made.accepts_all = a.accepts_all && b.accepts_all;
    made.accepts = (a.accepts || a.accepts_all) && (b.accepts || b.accepts_all);
    const auto of_a = edges_of(a_, first), of_b = edges_of(b_, second);
    for (size_t i = 0, j = 0; !made.accepts_all && i < of_a.size() && j < of_b.size();) {
      const CodePoints range = {std::max(of_a[i].range.first, of_b[j].range.first),
                                std::min(of_a[i].range.last, of_b[j].range.last)};
      if (range.first <= range.last) made.edges.push_back({range, number_of({of_a[i].to, of_b[j].to})});
      of_a[i].range.last < of_b[j].range.last ? ++i : ++j;
    }
    automaton_.states[index] = std::move(made);
  }

  const PatternAutomaton &a_, &b_;
  std::map<Pair, uint32_t> number_of_;
  std::vector<Pair> pairs_;
  PatternAutomaton automaton_;
};

}  // namespace

bool is_found(const PatternAutomaton& automaton, std::string_view text) {
  const PatternAutomaton::State* state = automaton.states.data();
  while (!text.empty() && !state->accepts_all) {
    const uint32_t code = take_code_point(text);
    const auto edge = std::ranges::find_if(state->edges, [code](const PatternAutomaton::Edge& e) {
      return e.range.first <= code && code <= e.range.last;
    });
    if (edge == state->edges.end()) return false;
    state = &automaton.states[edge->to];
  }
  return state->accepts || state->accepts_all;
}

PatternAutomaton intersection(const PatternAutomaton& a, const PatternAutomaton& b) {
  return Product(a, b).make();
}

PatternAutomaton compile_pattern(std::string_view pattern, size_t& steps, PatternPlace place) {
  return SubsetSearch(parse_pattern(pattern, place), steps).search();
}

}  // namespace serval::grammar
