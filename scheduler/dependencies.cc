#include "scheduler/dependencies.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "scheduler/access_log.h"
#include "scheduler/bitset.h"

namespace serval {
namespace {

constexpr uint32_t kNone = 0xffffffff;

// Edges from earlier nodes of one stage to a node, and the operands that cause them.
struct StageEdges {
  uint32_t stage;
  uint32_t operand_mask;
  Join nodes;
};

// The edges that a node's reads cause, cached for other nodes with the same reads.
struct CachedEdges {
  struct Read {
    Region region;
    uint64_t writes;  // AccessLog::writes_of() its tensor when the edges were found
    friend bool operator==(const Read&, const Read&) = default;
  };
  std::vector<Read> reads;
  std::vector<StageEdges> edges;
};
// Consecutive nodes of a stage compute different row tiles in turn: this many tiles' reads stay cached.
constexpr size_t kMaxCachedEdges = 16;

struct JoinHash {
  size_t operator()(const Join& join) const {
    constexpr uint64_t kPrime = 0x100000001b3;
    uint64_t h = 0xcbf29ce484222325;
    for (const uint32_t node : join) h = (h ^ node) * kPrime;
    return static_cast<size_t>(h ^ (h >> 32));
  }
};

// Visits the nodes of two passes in serial order. `known` is the set of joins that are certainly complete
// when a node starts. An edge from node p is implied if p is in one of these joins.
class Derivation {
 public:
  explicit Derivation(const Graph& graph);
  Dependencies run();

 private:
  void visit_first_pass(uint32_t node);
  void visit_second_pass(uint32_t node);
  void collect_edges(uint32_t node, bool second_pass);
  void collect_read_edges(uint32_t node);
  void reuse_edges(const CachedEdges& same, uint32_t node);
  void cache_edges();
  void select_stage(uint32_t stage);
  void add_edges(std::span<const uint32_t> nodes, uint32_t to, uint32_t operand_mask);
  void add_waits(uint32_t node, bool previous_pass, Bitset& known);
  void add_final_wait(uint32_t last);
  void guard_with_existing_waits(uint32_t node, const StageEdges& e);
  uint32_t join_of(const Join& nodes);
  bool implied(uint32_t node, const Bitset& known) const;
  Bitset closure_of(uint32_t join, const std::vector<uint32_t>& of_node) const;
  const Bitset& previous_closure(uint32_t join, uint32_t stage);
  uint32_t intern(uint32_t node, const Bitset& known, std::vector<uint32_t>& of_node);

  const Graph& graph_;
  Dependencies out_;  // its waits and signals are collected in the next two
  std::vector<std::vector<JoinWait>> waits_;
  std::vector<std::vector<uint32_t>> signals_;
  AccessLog log_;
  // The last node before the gate's nodes, and the first of the gate's nodes. On one device both are the last
  // node.
  uint32_t last_, gate_begin_;
  std::vector<uint32_t> stage_of_;
  std::unordered_map<Join, uint32_t, JoinHash> join_index_;
  std::vector<Bitset> sets_;              // interned sets of joins
  std::vector<uint32_t> known_;           // of each node: index of its `known` set, joins of its own pass
  std::vector<uint32_t> known_previous_;  // of each node of the second pass: likewise, joins of the first
  std::vector<Bitset> closure_;           // of each join: the joins that are complete when it is
  // For joins of the second pass: the joins of the first pass that are complete when they are. Kept for one
  // stage at a time.
  std::unordered_map<uint32_t, Bitset> previous_closures_;
  uint32_t closures_stage_ = kNone;
  Footprint footprint_;
  std::vector<uint32_t> last_edge_to_;  // of each node: the last node to which an edge from it was found
  std::vector<StageEdges> edges_;       // the first num_edges_ are in use; the others keep their memory
  size_t num_edges_ = 0;
  size_t selected_edges_ = 0;              // index of the entry that edges are added to
  std::vector<CachedEdges::Read> reads_;   // of the current node
  std::vector<CachedEdges> cached_edges_;  // a ring
  size_t oldest_cached_edges_ = 0;
};

Derivation::Derivation(const Graph& graph)
    : graph_(graph),
      log_(graph.tensors.size()),
      last_(static_cast<uint32_t>(graph.nodes.size()) - 1),
      gate_begin_(last_),
      known_(graph.nodes.size()),
      known_previous_(graph.nodes.size()) {
  waits_.resize(graph.nodes.size());
  signals_.resize(graph.nodes.size());
  stage_of_.resize(graph.nodes.size());
  last_edge_to_.assign(graph.nodes.size(), kNone);
  for (uint32_t s = 0; s < graph.stages.size(); ++s) {
    const Stage& stage = graph.stages[s];
    std::fill_n(stage_of_.begin() + stage.first_node, stage.num_nodes, s);
  }
  if (graph.num_devices == 1) return;
  gate_begin_ = graph.stages.back().first_node;
  last_ = gate_begin_ - 1;
}

Dependencies Derivation::run() {
  const auto count = static_cast<uint32_t>(graph_.nodes.size());
  for (uint32_t n = 0; n < count; ++n) {
    if (n == last_) add_final_wait(n);
    visit_first_pass(n);
  }
  // The gate: the next pass starts after these nodes.
  Join gate(count - gate_begin_);
  std::iota(gate.begin(), gate.end(), gate_begin_);
  out_.gate = join_of(gate);
  last_edge_to_.assign(count, kNone);
  for (uint32_t n = 0; n < count; ++n) visit_second_pass(n);
  out_.waits = Lists<JoinWait>(waits_);
  out_.signals = Lists<uint32_t>(signals_);
  return std::move(out_);
}

// Finds the edges to a node from nodes of the first pass. Accesses of the second pass are not logged, so that
// no edge comes from it, but its writes hide earlier accesses.
void Derivation::collect_edges(uint32_t node, bool second_pass) {
  footprint_.clear();
  const Instruction& instruction = graph_.nodes[node];
  op_info(instruction.opcode).footprint(instruction, graph_, nullptr, footprint_);
  std::erase_if(footprint_,
                [&](const Region& r) { return is_immutable(graph_.tensors[r.tensor.index].kind); });
  num_edges_ = 0;
  collect_read_edges(node);
  for (const Region& region : footprint_) {
    if (writes(region.access))
      log_.for_conflicts(region,
                         [&](const auto& others) { add_edges(others.nodes, node, 1U << region.operand); });
  }
  for (const Region& region : footprint_) {
    if (!second_pass) {
      log_.record(region, node);
    } else if (writes(region.access)) {
      log_.forget(region);
    }
  }
  const auto edges = std::span(edges_).first(num_edges_);
  std::sort(edges.begin(), edges.end(),
            [](const StageEdges& x, const StageEdges& y) { return x.stage > y.stage; });
  for (StageEdges& e : edges) {
    if (!std::is_sorted(e.nodes.begin(), e.nodes.end())) std::sort(e.nodes.begin(), e.nodes.end());
  }
}

// Finds the edges that read-only regions cause. Most nodes of a stage read the same regions.
void Derivation::collect_read_edges(uint32_t node) {
  reads_.clear();
  for (const Region& region : footprint_) {
    if (!writes(region.access)) reads_.push_back({region, log_.writes_of(region.tensor)});
  }
  const auto same = std::ranges::find(cached_edges_, reads_, &CachedEdges::reads);
  if (same != cached_edges_.end()) return reuse_edges(*same, node);
  for (const CachedEdges::Read& read : reads_) {
    log_.for_conflicts(read.region,
                       [&](const auto& others) { add_edges(others.nodes, node, 1U << read.region.operand); });
  }
  cache_edges();
}

void Derivation::reuse_edges(const CachedEdges& same, uint32_t node) {
  num_edges_ = same.edges.size();
  if (edges_.size() < num_edges_) edges_.resize(num_edges_);
  std::ranges::copy(same.edges, edges_.begin());
  for (const StageEdges& e : same.edges) {
    for (const uint32_t from : e.nodes) last_edge_to_[from] = node;
  }
}

void Derivation::cache_edges() {
  if (cached_edges_.size() < kMaxCachedEdges) cached_edges_.emplace_back();
  CachedEdges& kept = cached_edges_[oldest_cached_edges_];
  oldest_cached_edges_ = (oldest_cached_edges_ + 1) % kMaxCachedEdges;
  kept.reads = reads_;
  kept.edges.resize(num_edges_);
  std::copy_n(edges_.begin(), num_edges_, kept.edges.begin());
}

// Consecutive nodes mostly belong to one stage, so a whole run of them is added at a time.
inline void Derivation::add_edges(std::span<const uint32_t> nodes, uint32_t to, uint32_t operand_mask) {
  while (!nodes.empty()) {
    const uint32_t stage = stage_of_[nodes.front()];
    if (selected_edges_ >= num_edges_ || edges_[selected_edges_].stage != stage) select_stage(stage);
    StageEdges& e = edges_[selected_edges_];
    e.operand_mask |= operand_mask;
    const Stage& of = graph_.stages[stage];
    const size_t before = e.nodes.size();
    e.nodes.resize(before + nodes.size());
    uint32_t* added = e.nodes.data() + before;
    uint32_t* const last_edge_to = last_edge_to_.data();
    size_t taken = 0;
    for (; taken < nodes.size() && nodes[taken] - of.first_node < of.num_nodes; ++taken) {
      const uint32_t from = nodes[taken];
      *added = from;
      added += std::exchange(last_edge_to[from], to) != to ? 1 : 0;
    }
    e.nodes.resize(static_cast<size_t>(added - e.nodes.data()));
    nodes = nodes.subspan(taken);
  }
}

// Selects the stage's entry of edges_, or adds one.
void Derivation::select_stage(uint32_t stage) {
  selected_edges_ = 0;
  while (selected_edges_ < num_edges_ && edges_[selected_edges_].stage != stage) ++selected_edges_;
  if (selected_edges_ < num_edges_) return;
  if (++num_edges_ > edges_.size()) edges_.emplace_back();
  edges_[selected_edges_].stage = stage;
  edges_[selected_edges_].operand_mask = 0;
  edges_[selected_edges_].nodes.clear();
}

bool Derivation::implied(uint32_t node, const Bitset& known) const {
  const std::vector<uint32_t>& joins = signals_[node];
  return std::any_of(joins.begin(), joins.end(), [&](uint32_t j) { return known.test(j); });
}

// Waits that the node already has imply these edges: now they guard the edges' operands, too.
void Derivation::guard_with_existing_waits(uint32_t node, const StageEdges& e) {
  for (JoinWait& wait : waits_[node]) {
    const auto by_this = [&](uint32_t n) { return implied(n, closure_[wait.join]); };
    if (!wait.previous_pass && std::any_of(e.nodes.begin(), e.nodes.end(), by_this)) {
      wait.operand_mask |= e.operand_mask;
    }
  }
}

// Turns edges_ into waits, the latest stage first, because waits for later stages imply edges from earlier
// ones.
void Derivation::add_waits(uint32_t node, bool previous_pass, Bitset& known) {
  for (const StageEdges& e : std::span(edges_).first(num_edges_)) {
    if (std::all_of(e.nodes.begin(), e.nodes.end(), [&](uint32_t n) { return implied(n, known); })) {
      guard_with_existing_waits(node, e);
      continue;
    }
    const uint32_t join = previous_pass && e.nodes.front() >= last_ ? out_.gate : join_of(e.nodes);
    waits_[node].push_back({join, e.operand_mask, previous_pass});
    known.merge(closure_[join]);
  }
}

uint32_t Derivation::join_of(const Join& nodes) {
  const auto [it, added] = join_index_.try_emplace(nodes, static_cast<uint32_t>(out_.joins.size()));
  if (!added) return it->second;
  const uint32_t join = it->second;
  out_.joins.push_back(nodes);
  for (const uint32_t n : nodes) signals_[n].push_back(join);
  closure_.push_back(closure_of(join, known_));
  closure_.back().set(join);
  return join;
}

Bitset Derivation::closure_of(uint32_t join, const std::vector<uint32_t>& of_node) const {
  Bitset set;
  uint32_t last = kNone;
  for (const uint32_t n : out_.joins[join]) {
    if (of_node[n] == last) continue;  // consecutive nodes mostly share a set
    last = of_node[n];
    set.merge(sets_[last]);
  }
  return set;
}

const Bitset& Derivation::previous_closure(uint32_t join, uint32_t stage) {
  if (std::exchange(closures_stage_, stage) != stage) previous_closures_.clear();
  const auto [it, added] = previous_closures_.try_emplace(join);
  if (added) it->second = closure_of(join, known_previous_);
  return it->second;
}

// Stores the node's `known` set. Consecutive nodes of a stage with equal waits share one.
uint32_t Derivation::intern(uint32_t node, const Bitset& known, std::vector<uint32_t>& of_node) {
  const auto same = [](const JoinWait& a, const JoinWait& b) {
    return a.join == b.join && a.previous_pass == b.previous_pass;
  };
  if (node > 0 && stage_of_[node] == stage_of_[node - 1]) {
    const auto &a = waits_[node], &b = waits_[node - 1];
    if (std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) return of_node[node] = of_node[node - 1];
  }
  sets_.push_back(known);
  return of_node[node] = static_cast<uint32_t>(sets_.size() - 1);
}

void Derivation::visit_first_pass(uint32_t node) {
  collect_edges(node, false);
  Bitset known;
  for (const JoinWait& wait : waits_[node]) known.merge(closure_[wait.join]);
  add_waits(node, false, known);
  intern(node, known, known_);
}

// The last node ends the pass: it also waits for the nodes that no other node waits for.
void Derivation::add_final_wait(uint32_t last) {
  Join unwaited;
  for (uint32_t n = 0; n < last; ++n) {
    if (signals_[n].empty()) unwaited.push_back(n);
  }
  if (unwaited.empty()) return;
  uint32_t all_operands = 0;
  footprint_.clear();
  op_info(graph_.nodes[last].opcode).footprint(graph_.nodes[last], graph_, nullptr, footprint_);
  for (const Region& r : footprint_) all_operands |= 1U << r.operand;
  waits_[last].push_back({join_of(unwaited), all_operands, false});
}

void Derivation::visit_second_pass(uint32_t node) {
  collect_edges(node, true);
  Bitset known;
  for (const JoinWait& wait : waits_[node]) {
    if (!wait.previous_pass) known.merge(previous_closure(wait.join, stage_of_[node]));
  }
  add_waits(node, true, known);
  intern(node, known, known_previous_);
}

}  // namespace

Dependencies derive_dependencies(const Graph& graph) {
  if (graph.nodes.empty()) return {};
  return Derivation(graph).run();
}

}  // namespace serval
