#include "scheduler/periodic_dependencies.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "scheduler/periods.h"

namespace serval {
namespace {

// The first period may depend on what precedes all periods; the others are compared.
constexpr uint32_t kKeptPeriods = 4, kRepeatedPeriod = 2;

// Returns the graph without the periods [from, from + count).
Graph without_periods(const Graph& graph, const Periods& periods, uint32_t from, uint32_t count) {
  Graph out;
  static_cast<ProgramShape&>(out) = graph;
  out.num_devices = graph.num_devices;
  out.tensors = graph.tensors;
  const uint32_t begin = periods.begin(from), end = periods.begin(from + count);
  out.nodes.reserve(graph.nodes.size() - (end - begin));
  out.nodes.assign(graph.nodes.begin(), graph.nodes.begin() + begin);
  out.nodes.insert(out.nodes.end(), graph.nodes.begin() + end, graph.nodes.end());
  for (Stage stage : graph.stages) {
    if (stage.first_node >= begin && stage.first_node < end) continue;
    if (stage.first_node >= end) stage.first_node -= end - begin;
    out.stages.push_back(std::move(stage));
  }
  return out;
}

// Inserts copies of a period after it. Nodes and joins are numbered as in the graph without the copies,
// except in `out_`.
class Repetition {
 public:
  Repetition(const Dependencies& kept, const Periods& periods, uint32_t copies);
  // Returns nothing if the kept periods are not alike.
  std::optional<Dependencies> run();

 private:
  void find_joins();
  std::optional<uint32_t> next_join(const JoinWait& wait) const;
  bool are_alike(uint32_t period) const;
  bool can_renumber() const;
  bool can_renumber(uint32_t node, const JoinWait& wait) const;
  bool can_renumber(const Join& join) const;
  void add_joins();
  void add_waits();
  void add_signals();
  void append(const Join& join, uint32_t from, uint32_t by);
  void append(std::span<const JoinWait> waits, uint32_t from, uint32_t by);

  const Dependencies& kept_;
  const Periods& periods_;
  const uint32_t copies_, begin_, end_;          // begin_, end_: nodes of the repeated period
  uint32_t joins_begin_[kKeptPeriods + 1] = {};  // of each period: number of joins made before its first node
  uint32_t joins_end_ = 0;  // end of the joins within a pass; the others are across passes, or the gate
  uint32_t num_joins_ = 0;  // number of joins that the repeated period makes
  Dependencies out_;
};

Repetition::Repetition(const Dependencies& kept, const Periods& periods, uint32_t copies)
    : kept_(kept),
      periods_(periods),
      copies_(copies),
      begin_(periods.begin(kRepeatedPeriod)),
      end_(periods.begin(kRepeatedPeriod + 1)) {
  find_joins();
}

// A join is made for the first node that waits for it.
void Repetition::find_joins() {
  for (uint32_t n = 0, period = 0; n < kept_.waits.size(); ++n) {
    if (period <= kKeptPeriods && n == periods_.begin(period)) joins_begin_[period++] = joins_end_;
    for (const JoinWait& wait : kept_.waits[n])
      joins_end_ += !wait.previous_pass && wait.join == joins_end_ ? 1 : 0;
  }
  num_joins_ = joins_begin_[kRepeatedPeriod + 1] - joins_begin_[kRepeatedPeriod];
}

// The join that the corresponding node of the next period waits for; nothing if it is not known.
std::optional<uint32_t> Repetition::next_join(const JoinWait& wait) const {
  if (wait.join < joins_begin_[0] || wait.join >= joins_end_) return wait.join;
  if (wait.previous_pass) return std::nullopt;
  return wait.join + num_joins_;
}

// True if the next period has the same joins and waits, moved by one period.
bool Repetition::are_alike(uint32_t period) const {
  const uint32_t joins_begin = joins_begin_[period], joins_end = joins_begin_[period + 1];
  if (joins_end - joins_begin != num_joins_ || joins_begin_[period + 2] - joins_end != num_joins_)
    return false;
  for (uint32_t j = joins_begin; j < joins_end; ++j) {
    const bool same = std::ranges::equal(kept_.joins[j], kept_.joins[j + num_joins_],
                                         [&](uint32_t a, uint32_t b) { return a + periods_.nodes == b; });
    if (!same) return false;
  }
  const auto same = [&](const JoinWait& a, const JoinWait& b) {
    return next_join(a) == b.join && a.operand_mask == b.operand_mask && a.previous_pass == b.previous_pass;
  };
  for (uint32_t n = periods_.begin(period); n < periods_.begin(period + 1); ++n) {
    if (!std::ranges::equal(kept_.waits[n], kept_.waits[n + periods_.nodes], same)) return false;
  }
  return true;
}

// True if it is known which join the wait means once there are copies: one before them, or the last copy's.
bool Repetition::can_renumber(uint32_t node, const JoinWait& wait) const {
  if (wait.join < joins_begin_[0]) return true;
  if (wait.previous_pass) return wait.join >= joins_begin_[kRepeatedPeriod + 1];
  return node < end_ || wait.join >= joins_begin_[kRepeatedPeriod];
}

bool Repetition::can_renumber(const Join& join) const {
  return std::ranges::all_of(join, [&](uint32_t n) { return n < periods_.first_node || n >= begin_; });
}

bool Repetition::can_renumber() const {
  for (uint32_t n = 0; n < kept_.waits.size(); ++n) {
    if (!std::ranges::all_of(kept_.waits[n], [&](const JoinWait& wait) { return can_renumber(n, wait); }))
      return false;
  }
  return kept_.gate >= joins_begin_[kRepeatedPeriod + 1] &&
         std::all_of(kept_.joins.begin() + joins_begin_[kRepeatedPeriod + 1], kept_.joins.end(),
                     [&](const Join& join) { return can_renumber(join); });
}

// Appends the join, with the nodes from `from` on moved by `by`.
void Repetition::append(const Join& join, uint32_t from, uint32_t by) {
  Join& moved = out_.joins.emplace_back(join);
  for (uint32_t& n : moved) n += n >= from ? by : 0;
}

void Repetition::add_joins() {
  const auto joins = kept_.joins.begin();
  const auto begin = joins + joins_begin_[kRepeatedPeriod], end = begin + num_joins_;
  out_.joins.reserve(kept_.joins.size() + size_t{copies_} * num_joins_);
  out_.joins.assign(joins, end);
  for (uint32_t copy = 1; copy <= copies_; ++copy) {
    for (auto join = begin; join != end; ++join) append(*join, periods_.first_node, copy * periods_.nodes);
  }
  for (auto join = end; join != kept_.joins.end(); ++join) append(*join, begin_, copies_ * periods_.nodes);
}

// Appends waits, with the joins from `from` on moved by `by`. Joins after the repeated period come after all
// copies.
void Repetition::append(std::span<const JoinWait> waits, uint32_t from, uint32_t by) {
  for (JoinWait& wait : out_.waits.add(waits)) {
    const bool is_after = wait.join >= joins_begin_[kRepeatedPeriod + 1];
    if (is_after || wait.join >= from) wait.join += is_after ? copies_ * num_joins_ : by;
  }
}

void Repetition::add_waits() {
  const size_t nodes = kept_.waits.size() + size_t{copies_} * periods_.nodes;
  out_.waits.reserve(nodes, nodes);  // most nodes have one wait
  for (uint32_t n = 0; n < end_; ++n) append(kept_.waits[n], 0, 0);
  for (uint32_t copy = 1; copy <= copies_; ++copy) {
    for (uint32_t n = begin_; n < end_; ++n) append(kept_.waits[n], joins_begin_[0], copy * num_joins_);
  }
  for (uint32_t n = end_; n < kept_.waits.size(); ++n)
    append(kept_.waits[n], joins_begin_[kRepeatedPeriod], copies_ * num_joins_);
}

void Repetition::add_signals() {
  out_.signals = Lists<uint32_t>::filled(out_.waits.size(), [&](const auto& add) {
    for (uint32_t j = 0; j < out_.joins.size(); ++j) {
      for (const uint32_t n : out_.joins[j]) add(n, j);
    }
  });
}

std::optional<Dependencies> Repetition::run() {
  if (!are_alike(kRepeatedPeriod - 1) || !are_alike(kRepeatedPeriod) || !can_renumber()) return std::nullopt;
  add_joins();
  add_waits();
  add_signals();
  out_.gate = kept_.gate + copies_ * num_joins_;
  return std::move(out_);
}

}  // namespace

Dependencies derive_periodic_dependencies(const Graph& graph) {
  const std::optional<Periods> periods = find_periods(graph, kKeptPeriods + 1);
  if (!periods) return derive_dependencies(graph);
  const uint32_t copies = periods->count - kKeptPeriods;
  const Dependencies kept =
      derive_dependencies(without_periods(graph, *periods, kRepeatedPeriod + 1, copies));
  std::optional<Dependencies> all = Repetition(kept, *periods, copies).run();
  return all ? std::move(*all) : derive_dependencies(graph);
}

}  // namespace serval
