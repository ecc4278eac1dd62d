#include "tests/scheduler/ordering.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <set>

#include "instructions/isa.h"
#include "scheduler/report.h"

namespace serval::testing {
namespace {

constexpr uint32_t kPasses = 2;

bool test(const std::vector<uint64_t>& bits, size_t at) {
  return (bits[at / 64] >> (at % 64) & 1) != 0;
}
void set(std::vector<uint64_t>& bits, size_t at) {
  bits[at / 64] |= uint64_t{1} << (at % 64);
}
void merge(std::vector<uint64_t>& into, const std::vector<uint64_t>& from) {
  for (size_t w = 0; w < into.size(); ++w) into[w] |= from[w];
}

// The part of a record that identifies its node: everything except waits and signals.
std::string identity(const Instruction& i) {
  std::string key(reinterpret_cast<const char*>(i.operands.data()), i.operands.size());
  return key + fmt::format("{} {}", i.opcode, i.tag);
}

}  // namespace

Ordering::Ordering(const Graph& graph, const Program& program)
    : program_(program),
      count_(program.instructions.size()),
      certain_(kPasses * count_),
      counter_closure_(kPasses * program.counters.size()),
      counted_(kPasses * program.counters.size(), 0),
      conflicts_(count_) {
  nothing_.assign((kPasses * count_ + 63) / 64, 0);
  std::fill(certain_.begin(), certain_.end(), nothing_);
  std::fill(counter_closure_.begin(), counter_closure_.end(), nothing_);
  match_nodes(graph);
  run();
  if (deadlock_.empty()) find_conflicts();
}

void Ordering::match_nodes(const Graph& graph) {
  std::map<std::string, uint32_t> nodes;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) nodes[identity(graph.nodes[n])] = n;
  for (const Instruction& i : program_.instructions) {
    const auto at = nodes.find(identity(i));
    node_of_.push_back(at == nodes.end() ? static_cast<uint32_t>(count_) : at->second);
  }
  if (graph.nodes.size() != count_) node_of_.assign(count_, 0);
}

std::string Ordering::misplaced() const {
  std::vector<uint32_t> sorted = node_of_;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t n = 0; n < count_; ++n) {
    if (sorted[n] != n) return fmt::format("node {} is not placed once", n);
  }
  return "";
}

std::string Ordering::miscounted() const {
  std::vector<std::set<uint32_t>> joins(program_.counters.size());
  for (uint32_t i = 0; i < count_; ++i) {
    for (const Signal& s : program_.signals_of(program_.instructions[i])) {
      if (s.increment != 1) return fmt::format("instruction {} adds {}", i, s.increment);
      if (!joins[s.counter].insert(i).second) return fmt::format("instruction {} signals twice", i);
    }
  }
  for (size_t c = 0; c < joins.size(); ++c) {
    if (program_.counters[c].increments_per_pass != joins[c].size())
      return fmt::format("counter {}'s sum", c);
  }
  if (std::set(joins.begin(), joins.end()).size() != joins.size())
    return "two counters of the same instructions";
  for (const Wait& w : program_.waits) {
    if (w.threshold != 0 && w.threshold != joins[w.counter].size()) {
      return fmt::format("wait for {} of counter {}", w.threshold, w.counter);
    }
    if (w.operand_mask == 0) return fmt::format("a wait for counter {} guards nothing", w.counter);
  }
  return "";
}

const Ordering::Bits& Ordering::closure(const Wait& wait, uint32_t pass) const {
  if (wait.threshold > 0) return counter_closure_[pass * program_.counters.size() + wait.counter];
  return pass == 0 ? nothing_ : counter_closure_[wait.counter];
}

bool Ordering::try_run(uint32_t instruction, uint32_t pass) {
  const Instruction& record = program_.instructions[instruction];
  const size_t counters = program_.counters.size();
  for (const Wait& w : program_.waits_of(record)) {
    const bool full = w.threshold > 0 ? counted_[pass * counters + w.counter] >= w.threshold
                                      : pass == 0 || counted_[w.counter] ==
                                                         program_.counters[w.counter].increments_per_pass;
    if (!full) return false;
  }
  const size_t at = pass * count_ + instruction;
  for (const Wait& w : program_.waits_of(record)) merge(certain_[at], closure(w, pass));
  for (const Signal& s : program_.signals_of(record)) {
    counted_[pass * counters + s.counter] += s.increment;
    Bits& full = counter_closure_[pass * counters + s.counter];
    merge(full, certain_[at]);
    set(full, at);
  }
  return true;
}

void Ordering::run() {
  for (uint32_t pass = 0; pass < kPasses; ++pass) {
    std::vector<uint32_t> next(program_.queue_begin.begin(), program_.queue_begin.end() - 1);
    size_t done = 0;
    for (size_t before = 1; before != 0;) {
      before = 0;
      for (uint32_t q = 0; q < next.size(); ++q) {
        while (next[q] < program_.queue_begin[q + 1] && try_run(next[q], pass)) {
          ++next[q];
          ++before;
        }
      }
      done += before;
    }
    if (done < count_) {
      deadlock_ = fmt::format("pass {} stops after {} of {} instructions", pass, done, count_);
      return;
    }
  }
}

void Ordering::add_conflicts(const Touch& a, const Touch& b) {
  if (!a.region.box.overlaps(b.region.box)) return;
  const auto add = [&](const Touch& x, const Touch& y, bool across) {
    conflicts_[y.instruction].push_back(
        {x.instruction, y.instruction, across, y.region.access, y.region.operand});
  };
  if (node_of_[a.instruction] < node_of_[b.instruction]) add(a, b, false);
  if (node_of_[b.instruction] < node_of_[a.instruction]) add(b, a, false);
  add(a, b, true);
  if (a.instruction != b.instruction) add(b, a, true);
}

void Ordering::find_conflicts() {
  std::vector<std::vector<Touch>> readers(program_.tensors.size()), writers(program_.tensors.size());
  for (uint32_t i = 0; i < count_; ++i) {
    Footprint regions;
    op_info(program_.instructions[i].opcode).footprint(program_.instructions[i], program_, nullptr, regions);
    for (const Region& r : regions) {
      if (is_immutable(program_.tensors[r.tensor.index].kind)) continue;
      (writes(r.access) ? writers : readers)[r.tensor.index].push_back({i, r});
    }
  }
  for (size_t t = 0; t < writers.size(); ++t) {
    for (size_t i = 0; i < writers[t].size(); ++i) {
      for (size_t j = i; j < writers[t].size(); ++j) add_conflicts(writers[t][i], writers[t][j]);
      for (const Touch& r : readers[t]) add_conflicts(writers[t][i], r);
    }
  }
}

// True if a wait of c.after, other than `without`, covers c.before. If `operand` is given, only waits that
// guard it count.
bool Ordering::waited(const Conflict& c, uint32_t pass_after, std::optional<uint8_t> operand,
                      const Wait* without) const {
  const size_t at = (c.across ? pass_after - 1 : pass_after) * count_ + c.before;
  const auto waits = program_.waits_of(program_.instructions[c.after]);
  return std::any_of(waits.begin(), waits.end(), [&](const Wait& w) {
    if (&w == without || (operand && (w.operand_mask >> *operand & 1) == 0)) return false;
    return test(closure(w, pass_after), at);
  });
}

std::string Ordering::describe(const Conflict& c) const {
  return fmt::format("{}\n  before{}\n{}\n  operand {}",
                     format_instruction(program_, program_.instructions[c.before]),
                     c.across ? ", from one pass to the next," : "",
                     format_instruction(program_, program_.instructions[c.after]), c.operand);
}

std::string Ordering::unordered() const {
  for (const std::vector<Conflict>& of_one : conflicts_) {
    for (const Conflict& c : of_one) {
      for (uint32_t pass = c.across ? 1 : 0; pass < kPasses; ++pass) {
        if (!waited(c, pass, std::nullopt, nullptr)) return describe(c);
        // Across passes the gate protects the operands.
        if (!c.across && reads(c.access) && !waited(c, pass, c.operand, nullptr))
          return "unguarded: " + describe(c);
      }
    }
  }
  return "";
}

std::string Ordering::unfinished_at_gate() const {
  const Bits& gate = counter_closure_[program_.gate_counter];
  for (uint32_t i = 0; i < count_; ++i) {
    if (!test(gate, i)) return format_instruction(program_, program_.instructions[i]);
  }
  return "";
}

std::vector<std::string> Ordering::redundant_waits() const {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < count_; ++i) {
    if (node_of_[i] + 1 == count_) continue;  // the last node also waits in order to end the pass
    for (const Wait& w : program_.waits_of(program_.instructions[i])) {
      const bool needed = std::any_of(conflicts_[i].begin(), conflicts_[i].end(),
                                      [&](const Conflict& c) { return !waited(c, 1, std::nullopt, &w); });
      if (!needed) {
        out.push_back(fmt::format("counter {} >= {} of {}", w.counter, w.threshold,
                                  format_instruction(program_, program_.instructions[i])));
      }
    }
  }
  return out;
}

}  // namespace serval::testing
