// The program's counters, and the roles that wait for them.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "vm/instruction.h"
#include "vm/program.h"

namespace serval::sim {

class Counters {
 public:
  explicit Counters(const Program& program) : program_(program), counters_(program.counters.size()) {}

  uint64_t value(uint32_t counter) const { return counters_[counter].value; }
  double changed_at(uint32_t counter) const { return counters_[counter].changed_at; }
  // The value that a wait needs in this pass of the launch.
  uint64_t target(const Wait& wait, uint32_t pass) const {
    return wait.threshold + uint64_t{pass} * program_.counters[wait.counter].increments_per_pass;
  }
  uint64_t gate_target(uint32_t pass) const {
    return uint64_t{pass} * program_.counters[program_.gate_counter].increments_per_pass;
  }

  // True if the counter has the value already; else a later add() reports the SM.
  bool wait(uint32_t sm, uint32_t counter, uint64_t target) {
    if (counters_[counter].value >= target) return true;
    counters_[counter].waiters.push({target, sm});
    return false;
  }
  // Calls reached(sm) for each SM whose wait is over.
  template <class Reached>
  void add(double now, const Signal& signal, Reached&& reached) {
    Counter& counter = counters_[signal.counter];
    counter.value += signal.increment;
    counter.changed_at = now;
    while (!counter.waiters.empty() && counter.waiters.top().target <= counter.value) {
      const uint32_t sm = counter.waiters.top().sm;
      counter.waiters.pop();
      reached(sm);
    }
  }

 private:
  struct Waiter {
    uint64_t target;
    uint32_t sm;
    friend bool operator>(const Waiter& a, const Waiter& b) {
      return a.target != b.target ? a.target > b.target : a.sm > b.sm;
    }
  };
  struct Counter {
    uint64_t value = 0;
    double changed_at = 0;
    std::priority_queue<Waiter, std::vector<Waiter>, std::greater<>> waiters;
  };

  const Program& program_;
  std::vector<Counter> counters_;
};

}  // namespace serval::sim
