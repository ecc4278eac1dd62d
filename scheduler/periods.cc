#include "scheduler/periods.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "instructions/isa.h"

namespace serval {
namespace {

constexpr uint32_t kNone = 0xffffffff;

struct NamedTensor {
  uint32_t offset;  // bytes into the operands
  bool peers;
};

// Returns the tensor operands of each opcode.
std::vector<std::vector<NamedTensor>> tensors_of_opcodes() {
  std::vector<std::vector<NamedTensor>> out;
  for (const OpInfo& info : isa()) {
    std::vector<NamedTensor>& named = out.emplace_back();
    for (const FieldInfo& field : info.fields) {
      if (names_tensors(field.kind)) named.push_back({field.offset, field.kind == FieldKind::kPeers});
    }
  }
  return out;
}

class PeriodSearch {
 public:
  explicit PeriodSearch(const Graph& graph);
  std::optional<Periods> run(uint32_t least);

 private:
  using Operands = decltype(Instruction::operands);
  struct Range {
    uint32_t first = kNone, last = 0;  // nodes
  };

  void find_ranges();
  Operands without_tensors(const Instruction& node) const;
  bool stages_alike(uint32_t a, uint32_t b) const;
  std::optional<Periods> longest_run(uint32_t stages) const;
  bool repeats(const Periods& periods);
  bool nodes_alike(const Periods& periods, uint32_t node);
  bool tensors_alike(const Periods& periods, uint32_t node, uint32_t tensor, uint32_t next);
  bool is_own(const Periods& periods, uint32_t node, uint32_t tensor) const;

  const Graph& graph_;
  const std::vector<std::vector<NamedTensor>> named_ = tensors_of_opcodes();
  std::vector<Range> ranges_;  // of each tensor: the first and the last node that names it
  // Counterparts of a tensor of one period in the next and the previous period.
  std::vector<uint32_t> next_, previous_;
};

uint32_t tensor_at(const Instruction& node, const NamedTensor& named) {
  uint32_t index = 0;
  std::memcpy(&index, node.operands.data() + named.offset, sizeof index);
  return index;
}

PeriodSearch::PeriodSearch(const Graph& graph)
    : graph_(graph), next_(graph.tensors.size()), previous_(graph.tensors.size()) {}

void PeriodSearch::find_ranges() {
  ranges_.resize(graph_.tensors.size());
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    for (const NamedTensor& named : named_[graph_.nodes[n].opcode]) {
      const uint32_t first = tensor_at(graph_.nodes[n], named);
      for (uint32_t t = first; t < first + (named.peers ? graph_.num_devices : 1); ++t) {
        ranges_[t].first = std::min(ranges_[t].first, n);
        ranges_[t].last = n;
      }
    }
  }
}

PeriodSearch::Operands PeriodSearch::without_tensors(const Instruction& node) const {
  Operands out = node.operands;
  for (const NamedTensor& named : named_[node.opcode])
    std::memset(out.data() + named.offset, 0, sizeof(uint32_t));
  return out;
}

// Compares only the numbers of nodes and the first nodes.
bool PeriodSearch::stages_alike(uint32_t a, uint32_t b) const {
  const Stage &one = graph_.stages[a], &other = graph_.stages[b];
  if (one.num_nodes != other.num_nodes || one.num_nodes == 0) return false;
  const Instruction &first = graph_.nodes[one.first_node], &second = graph_.nodes[other.first_node];
  return first.opcode == second.opcode && without_tensors(first) == without_tensors(second);
}

// The longest run of periods of `stages` stages each.
std::optional<Periods> PeriodSearch::longest_run(uint32_t stages) const {
  const auto count = static_cast<uint32_t>(graph_.stages.size());
  uint32_t longest = 0, first = 0;
  for (uint32_t s = 0, run = 0; s + stages < count; ++s) {
    run = stages_alike(s, s + stages) ? run + 1 : 0;
    if (run > longest) {
      longest = run;
      first = s + 1 - run;
    }
  }
  if (longest < stages) return std::nullopt;
  const uint32_t begin = graph_.stages[first].first_node, end = graph_.stages[first + stages].first_node;
  return Periods{begin, end - begin, first, stages, longest / stages + 1};
}

// True if no node outside of the node's period names the tensor.
bool PeriodSearch::is_own(const Periods& periods, uint32_t node, uint32_t tensor) const {
  const uint32_t begin = periods.begin((node - periods.first_node) / periods.nodes);
  return ranges_[tensor].first >= begin && ranges_[tensor].last - begin < periods.nodes;
}

bool PeriodSearch::tensors_alike(const Periods& periods, uint32_t node, uint32_t tensor, uint32_t next) {
  const bool immutable = is_immutable(graph_.tensors[tensor].kind);
  if (tensor == next || immutable) return is_immutable(graph_.tensors[next].kind) == immutable;
  if (!is_own(periods, node, tensor) || !is_own(periods, node + periods.nodes, next)) return false;
  const uint32_t known = std::exchange(next_[tensor], next);
  const uint32_t known_before = std::exchange(previous_[next], tensor);
  return (known == kNone || known == next) && (known_before == kNone || known_before == tensor);
}

// Compares a node with its counterpart in the next period.
bool PeriodSearch::nodes_alike(const Periods& periods, uint32_t n) {
  const Instruction &node = graph_.nodes[n], &other = graph_.nodes[n + periods.nodes];
  if (node.opcode != other.opcode || without_tensors(node) != without_tensors(other)) return false;
  return std::ranges::all_of(named_[node.opcode], [&](const NamedTensor& named) {
    const uint32_t tensor = tensor_at(node, named), next = tensor_at(other, named);
    return named.peers ? tensor == next : tensors_alike(periods, n, tensor, next);
  });
}

bool PeriodSearch::repeats(const Periods& periods) {
  std::ranges::fill(next_, kNone);
  std::ranges::fill(previous_, kNone);
  const uint32_t end = periods.begin(periods.count - 1);
  for (uint32_t n = periods.first_node; n < end; ++n) {
    if (!nodes_alike(periods, n)) return false;
  }
  return true;
}

std::optional<Periods> PeriodSearch::run(uint32_t least) {
  for (uint32_t stages = 1; stages * least <= graph_.stages.size(); ++stages) {
    const std::optional<Periods> periods = longest_run(stages);
    if (!periods || periods->count < least) continue;
    if (ranges_.empty()) find_ranges();
    if (repeats(*periods)) return periods;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Periods> find_periods(const Graph& graph, uint32_t least) {
  return PeriodSearch(graph).run(least);
}

}  // namespace serval
