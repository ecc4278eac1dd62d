#include "scheduler/dependencies.h"

#include <algorithm>
#include <unordered_map>

#include "scheduler/access_log.h"
#include "scheduler/bitset.h"

namespace serval {
namespace {

constexpr uint32_t kNone = 0xffffffff;

// An earlier node that must have finished, and the operands because of which.
struct Edge {
  uint32_t node;
  uint32_t operand_mask;
};

struct JoinHash {
  size_t operator()(const Join& join) const {
    constexpr uint64_t kPrime = 0x100000001b3;
    uint64_t h = 0xcbf29ce484222325;
    for (const uint32_t node : join) h = (h ^ node) * kPrime;
    return static_cast<size_t>(h ^ (h >> 32));
  }
};

// Visits the nodes of two passes in serial order. `known(i)` is the set of joins that are certainly complete
// when node i starts; an edge from p is implied when p is in one of them.
class Derivation {
 public:
  explicit Derivation(const Graph& graph);
  Dependencies run();

 private:
  void visit_first_pass(uint32_t node);
  void visit_second_pass(uint32_t node);
  void collect_edges(uint32_t node);
  void add_needs(uint32_t node, bool previous_pass, Bitset& known);
  void finish_with_last();
  uint32_t join_of(const Join& nodes);
  bool implied(uint32_t node, const Bitset& known) const;
  Bitset closure_of(uint32_t join, const std::vector<uint32_t>& of_node) const;
  uint32_t intern(uint32_t node, const Bitset& known, std::vector<uint32_t>& of_node);

  const Graph& graph_;
  Dependencies out_;
  AccessLog log_;
  std::vector<uint32_t> stage_of_;
  std::unordered_map<Join, uint32_t, JoinHash> join_index_;
  std::vector<Bitset> sets_;              // interned
  std::vector<uint32_t> known_;           // of each node: joins of its own pass that it may rely on
  std::vector<uint32_t> known_previous_;  // of each node in the second pass: joins of the first
  std::vector<Bitset> closure_;           // of each join: joins that are complete whenever it is
  Footprint footprint_;
  std::vector<uint32_t> conflicts_;
  std::vector<Edge> edges_;
  Join scratch_;
};

Derivation::Derivation(const Graph& graph)
    : graph_(graph),
      log_(graph.tensors.size()),
      known_(graph.nodes.size()),
      known_previous_(graph.nodes.size()) {
  out_.needs.resize(graph.nodes.size());
  out_.signals.resize(graph.nodes.size());
  stage_of_.resize(graph.nodes.size());
  for (uint32_t s = 0; s < graph.stages.size(); ++s) {
    const Stage& stage = graph.stages[s];
    std::fill_n(stage_of_.begin() + stage.first_node, stage.num_nodes, s);
  }
}

Dependencies Derivation::run() {
  const auto count = static_cast<uint32_t>(graph_.nodes.size());
  for (uint32_t n = 0; n < count; ++n) {
    if (n + 1 == count) finish_with_last();
    visit_first_pass(n);
  }
  // The gate: a join of the last node alone, which no pass after may start without.
  join_of({count - 1});
  for (uint32_t n = 0; n < count; ++n) visit_second_pass(n);
  return std::move(out_);
}

// Nodes of the second pass are logged as themselves + count, so that the passes can be told apart.
void Derivation::collect_edges(uint32_t node) {
  footprint_.clear();
  const Instruction& instruction = graph_.nodes[node % graph_.nodes.size()];
  op_info(instruction.opcode).footprint(instruction, nullptr, footprint_);
  edges_.clear();
  for (const Region& region : footprint_) {
    if (is_immutable(graph_.tensors[region.tensor.index].kind)) continue;
    conflicts_.clear();
    log_.conflicts(region, conflicts_);
    for (const uint32_t other : conflicts_) edges_.push_back({other, 1U << region.operand});
  }
  for (const Region& region : footprint_) {
    if (!is_immutable(graph_.tensors[region.tensor.index].kind)) log_.record(region, node);
  }
  // One edge a node, latest first.
  std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.node > b.node; });
  size_t kept = 0;
  for (const Edge& e : edges_) {
    if (kept > 0 && edges_[kept - 1].node == e.node) {
      edges_[kept - 1].operand_mask |= e.operand_mask;
    } else {
      edges_[kept++] = e;
    }
  }
  edges_.resize(kept);
}

bool Derivation::implied(uint32_t node, const Bitset& known) const {
  const std::vector<uint32_t>& joins = out_.signals[node];
  return std::any_of(joins.begin(), joins.end(), [&](uint32_t j) { return known.test(j); });
}

// Turns edges_ into needs, stage by stage from the latest: what a later stage already waited for is implied.
void Derivation::add_needs(uint32_t node, bool previous_pass, Bitset& known) {
  for (size_t begin = 0; begin < edges_.size();) {
    size_t end = begin;
    const uint32_t stage = stage_of_[edges_[begin].node];
    uint32_t mask = 0;
    bool all_implied = true;
    scratch_.clear();
    for (; end < edges_.size() && stage_of_[edges_[end].node] == stage; ++end) {
      mask |= edges_[end].operand_mask;
      scratch_.push_back(edges_[end].node);
      all_implied = all_implied && implied(edges_[end].node, known);
    }
    begin = end;
    if (all_implied) continue;
    std::reverse(scratch_.begin(), scratch_.end());
    const uint32_t join = join_of(scratch_);
    out_.needs[node].push_back({join, mask, previous_pass});
    known.merge(closure_[join]);
  }
}

uint32_t Derivation::join_of(const Join& nodes) {
  const auto [it, added] = join_index_.try_emplace(nodes, static_cast<uint32_t>(out_.joins.size()));
  if (!added) return it->second;
  const uint32_t join = it->second;
  out_.joins.push_back(nodes);
  for (const uint32_t n : nodes) out_.signals[n].push_back(join);
  closure_.push_back(closure_of(join, known_));
  closure_.back().set(join);
  return join;
}

Bitset Derivation::closure_of(uint32_t join, const std::vector<uint32_t>& of_node) const {
  Bitset set;
  uint32_t last = kNone;
  for (const uint32_t n : out_.joins[join]) {
    if (of_node[n] == last) continue;  // neighbours mostly know the same
    last = of_node[n];
    set.merge(sets_[last]);
  }
  return set;
}

// Stores what a node knows; neighbours with equal needs share a set.
uint32_t Derivation::intern(uint32_t node, const Bitset& known, std::vector<uint32_t>& of_node) {
  const auto same = [](const Need& a, const Need& b) {
    return a.join == b.join && a.previous_pass == b.previous_pass;
  };
  if (node > 0 && stage_of_[node] == stage_of_[node - 1]) {
    const auto &a = out_.needs[node], &b = out_.needs[node - 1];
    if (std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) return of_node[node] = of_node[node - 1];
  }
  sets_.push_back(known);
  return of_node[node] = static_cast<uint32_t>(sets_.size() - 1);
}

void Derivation::visit_first_pass(uint32_t node) {
  collect_edges(node);
  Bitset known;
  for (const Need& need : out_.needs[node]) known.merge(closure_[need.join]);
  add_needs(node, false, known);
  intern(node, known, known_);
}

// The last node ends the pass: it also waits for those that nobody else waits for.
void Derivation::finish_with_last() {
  const auto last = static_cast<uint32_t>(graph_.nodes.size() - 1);
  scratch_.clear();
  for (uint32_t n = 0; n < last; ++n) {
    if (out_.signals[n].empty()) scratch_.push_back(n);
  }
  // Whoever reads what they write waits anyway; collect_edges will find those edges implied or add them.
  Footprint mine;
  op_info(graph_.nodes[last].opcode).footprint(graph_.nodes[last], nullptr, mine);
  if (scratch_.empty()) return;
  uint32_t mask = 0;
  for (const Region& r : mine) mask |= 1U << r.operand;
  out_.needs[last].push_back({join_of(Join(scratch_)), mask, false});
}

void Derivation::visit_second_pass(uint32_t node) {
  const auto count = static_cast<uint32_t>(graph_.nodes.size());
  collect_edges(node + count);
  // Edges within the pass are those of the first.
  std::erase_if(edges_, [&](const Edge& e) { return e.node >= count; });
  Bitset known;
  for (const Need& need : out_.needs[node]) {
    if (!need.previous_pass) known.merge(closure_of(need.join, known_previous_));
  }
  add_needs(node, true, known);
  intern(node, known, known_previous_);
}

}  // namespace

Dependencies derive_dependencies(const Graph& graph) {
  if (graph.nodes.empty()) return {};
  return Derivation(graph).run();
}

}  // namespace serval
