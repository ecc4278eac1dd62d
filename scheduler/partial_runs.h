// Which instructions can run before a counter has reached this or that threshold, whatever the timing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vm/program.h"

namespace serval {

class PartialRuns {
 public:
  explicit PartialRuns(const Program& program);

  // What instructions wait for a counter to reach, 0 left out, ascending.
  std::vector<uint32_t> thresholds(uint32_t counter) const;

  // For each instruction, the index of the first of the ascending thresholds such that it can run although no
  // wait for `counter` to reach this threshold or a higher one is over; their number if there is none. The
  // order of queues is no help: instructions of one SM overlap. Takes one run of the program for all
  // thresholds.
  std::vector<uint32_t> first_thresholds(uint32_t counter, std::span<const uint32_t> thresholds);

  uint64_t steps() const { return steps_; }  // instructions run so far

 private:
  struct Waiter {
    uint32_t threshold;
    uint32_t instruction;
  };
  struct Run {
    uint32_t held_counter, held_threshold;
    std::vector<uint64_t> count;
    std::vector<uint32_t> next_waiter;  // of each counter: the first whose wait is not over
    std::vector<uint32_t> unmet;        // of each instruction: waits that are not over
    std::vector<uint32_t> runnable;
  };
  void release(Run& run, uint32_t counter) const;

  const Program& program_;
  std::vector<std::vector<Waiter>> waiters_;  // of each counter, by threshold
  std::vector<uint32_t> waits_;               // of each instruction: how many, those for 0 left out
  uint64_t steps_ = 0;
};

}  // namespace serval
