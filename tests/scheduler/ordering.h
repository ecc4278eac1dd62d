// Computes by brute force, over two passes and without the scheduler's code, the order that a program's waits
// and signals guarantee and the order that its footprints require.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/graph.h"
#include "vm/program.h"

namespace serval::testing {

class Ordering {
 public:
  // The program must be compiled from the graph.
  Ordering(const Graph& graph, const Program& program);

  // "" if the records are the graph's nodes, each of them once.
  std::string misplaced() const;
  // "" if each instruction adds at most one to a counter, no two counters have the same instructions, and
  // every wait is for all increments of this pass or of the previous one.
  std::string miscounted() const;
  // "" if two passes run to their end in queue order.
  std::string deadlock() const { return deadlock_; }
  // "" if waits and signals order all conflicting accesses as the serial order does, within a pass and from
  // one pass to the next. For reads, the wait must guard the operand. The gate and the order of queues do not
  // count.
  std::string unordered() const;
  // "" if all instructions have finished when the gate opens.
  std::string unfinished_at_gate() const;
  // Waits that are not needed to order the conflicts or to let the last node end the pass.
  std::vector<std::string> redundant_waits() const;

 private:
  using Bits = std::vector<uint64_t>;  // 2 × instructions, those of the first pass first

  struct Touch {
    uint32_t instruction;
    Region region;
  };
  struct Conflict {
    uint32_t before, after;  // instructions
    bool across;             // `before` in one pass, `after` in the next
    Access access;           // of `after`
    uint8_t operand;         // of `after`
  };

  void match_nodes(const Graph& graph);
  void run();
  bool try_run(uint32_t instruction, uint32_t pass);
  void find_conflicts();
  void add_conflicts(const Touch& a, const Touch& b);
  const Bits& closure(const Wait& wait, uint32_t pass) const;
  bool waited(const Conflict& c, uint32_t pass_after, std::optional<uint8_t> operand,
              const Wait* without) const;
  std::string describe(const Conflict& c) const;

  const Program& program_;
  const size_t count_;
  std::vector<uint32_t> node_of_;                 // graph node of each instruction; count_ if none
  std::vector<Bits> certain_;                     // [pass × count_ + instruction]: finished before it starts
  std::vector<Bits> counter_closure_;             // [pass × counters + counter]: finished when it is full
  std::vector<uint32_t> counted_;                 // [pass × counters + counter]
  std::vector<std::vector<Conflict>> conflicts_;  // by `after`
  std::string deadlock_;
  Bits nothing_;
};

}  // namespace serval::testing
