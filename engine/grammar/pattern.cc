#include "engine/grammar/pattern.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/grammar/pattern_parser.h"

namespace serval::grammar {
namespace {

constexpr size_t kMaxAutomatonStates = 2000;

using StateSet = std::vector<uint32_t>;  // in order

// Finds the sets of states that a graph can be in.
class SubsetSearch {
 public:
  SubsetSearch(PatternGraph graph, size_t& steps)
      : graph_(std::move(graph)), marks_(graph_.edges.size(), 0), steps_(steps) {
    find_pieces();
  }

  PatternAutomaton search() {
    add(after(closure({graph_.start}), kTextBegin));
    for (uint32_t s = 0; s < sets_.size(); ++s) {
      const StateSet from = *sets_[s];
      const StateSet at_end = after(from, kTextEnd);
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
    if (steps_ > kMaxPatternSteps) refuse_pattern("too complicated an expression");
  }

  // Ranges in which all code points are alike.
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

  StateSet closure(StateSet states) {
    ++epoch_;
    for (const uint32_t s : states) marks_[s] = epoch_;
    for (size_t i = 0; i < states.size(); ++i) {
      step(graph_.edges[states[i]].size() + 1);
      for (const PatternGraph::Edge& e : graph_.edges[states[i]]) {
        if (!e.set.empty() || marks_[e.to] == epoch_) continue;
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
    return closure(std::move(to));
  }

  uint32_t add(StateSet set) {
    const auto [found, is_new] = number_of_.try_emplace(std::move(set), static_cast<uint32_t>(sets_.size()));
    if (!is_new) return found->second;
    if (sets_.size() >= kMaxAutomatonStates) refuse_pattern("too complicated an expression");
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
  std::vector<const StateSet*> sets_;
  PatternAutomaton automaton_;
};

}  // namespace

PatternAutomaton compile_pattern(std::string_view pattern, size_t& steps) {
  return SubsetSearch(parse_pattern(pattern), steps).search();
}

}  // namespace serval::grammar
