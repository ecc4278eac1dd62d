// Finds the instructions that can run before a counter reaches a threshold, whatever the timing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vm/program.h"

namespace serval {

// Runs a program while the waits for a counter to reach a threshold, or a higher one, are held.
class PartialRuns {
 public:
  explicit PartialRuns(const Program& program);

  // Thresholds above 0 of the waits for a counter, ascending.
  std::vector<uint32_t> thresholds(uint32_t counter) const;

  // For each instruction: index of the first of the ascending thresholds before which it can run, that is,
  // while no wait for `counter` to reach this threshold or a higher one is over; thresholds.size() if there
  // is none. The order of queues counts for nothing, because instructions of one SM overlap. Takes one run
  // for all thresholds.
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
    std::vector<uint32_t> next_waiter;  // of each counter: its first waiter whose wait is not over
    std::vector<uint32_t> unmet;        // of each instruction: waits that are not over
    std::vector<uint32_t> runnable;
  };
  void release(Run& run, uint32_t counter) const;

  const Program& program_;
  std::vector<std::vector<Waiter>> waiters_;  // of each counter, by threshold
  std::vector<uint32_t> waits_;               // of each instruction: number of waits for more than 0
  uint64_t steps_ = 0;
};

}  // namespace serval
