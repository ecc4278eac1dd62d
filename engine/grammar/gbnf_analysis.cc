#include "engine/grammar/gbnf_analysis.h"

#include <algorithm>
#include <functional>

namespace serval::grammar {
namespace {

using Node = GbnfTree::Node;
using NodeId = GbnfTree::NodeId;
using Kind = GbnfTree::Kind;

// Depth-first search for a cycle of rules, without recursion because a chain of rules may be long.
class CycleSearch {
 public:
  using Edges = std::function<std::vector<uint32_t>(uint32_t rule)>;

  CycleSearch(size_t rules, Edges edges)
      : edges_(std::move(edges)), is_new_(rules, true), is_open_(rules, false) {}

  // The rules of a cycle that `root` leads to; empty if there is none.
  std::vector<uint32_t> cycle_from(uint32_t root) {
    enter(root);
    while (!path_.empty()) {
      Visit& visit = path_.back();
      if (visit.next == visit.to.size()) {
        is_open_[visit.rule] = false;
        path_.pop_back();
        continue;
      }
      const uint32_t to = visit.to[visit.next++];
      if (is_open_[to]) return rules_since(to);
      enter(to);
    }
    return {};
  }

 private:
  struct Visit {
    uint32_t rule;
    std::vector<uint32_t> to;
    size_t next = 0;
  };

  void enter(uint32_t rule) {
    if (!is_new_[rule]) return;
    is_new_[rule] = false;
    is_open_[rule] = true;
    path_.push_back({rule, edges_(rule)});
  }
  std::vector<uint32_t> rules_since(uint32_t first) const {
    std::vector<uint32_t> rules;
    for (auto visit = std::ranges::find(path_, first, &Visit::rule); visit != path_.end(); ++visit)
      rules.push_back(visit->rule);
    return rules;
  }

  Edges edges_;
  std::vector<bool> is_new_, is_open_;
  std::vector<Visit> path_;
};

}  // namespace

GbnfAnalysis::GbnfAnalysis(const GbnfTree& tree) : tree_(tree), nullable_(tree.nodes.size(), false) {
  // The parts of a node precede it, so only references to rules need another pass.
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId node = 0; node < tree.nodes.size(); ++node) {
      if (nullable_[node] || !find_nullable(node)) continue;
      nullable_[node] = true;
      changed = true;
    }
  }
}

bool GbnfAnalysis::find_nullable(NodeId id) const {
  const Node& node = tree_.nodes[id];
  const auto is_known = [this](NodeId part) { return is_nullable(part); };
  switch (node.kind) {
    case Kind::kLiteral:
      return node.literal.empty();
    case Kind::kClass:
      return false;
    case Kind::kRule:
      return is_nullable(*tree_.rules[node.rule].body);
    case Kind::kSequence:
      return std::ranges::all_of(node.parts, is_known);
    case Kind::kAlternatives:
      return std::ranges::any_of(node.parts, is_known);
    case Kind::kRepetition:
      break;
  }
  return node.least == 0 || is_nullable(node.parts.front());
}

// The rules with which a text of a node may begin.
std::vector<uint32_t> GbnfAnalysis::first_rules(NodeId body) const {
  std::vector<uint32_t> rules;
  std::vector<NodeId> open = {body};
  while (!open.empty()) {
    const Node& node = tree_.nodes[open.back()];
    open.pop_back();
    if (node.kind == Kind::kRule) rules.push_back(node.rule);
    if (node.kind == Kind::kRepetition && node.most == 0) continue;
    for (const NodeId part : node.parts) {
      open.push_back(part);
      if (node.kind == Kind::kSequence && !is_nullable(part)) break;
    }
  }
  return rules;
}

std::optional<std::vector<uint32_t>> GbnfAnalysis::left_recursion() const {
  CycleSearch search(tree_.rules.size(),
                     [this](uint32_t rule) { return first_rules(*tree_.rules[rule].body); });
  for (uint32_t rule = 0; rule < tree_.rules.size(); ++rule) {
    std::vector<uint32_t> cycle = search.cycle_from(rule);
    if (!cycle.empty()) return cycle;
  }
  return std::nullopt;
}

}  // namespace serval::grammar
