#include "scheduler/partial_runs.h"

#include <algorithm>

namespace serval {

PartialRuns::PartialRuns(const Program& program)
    : program_(program), waiters_(program.counters.size()), waits_(program.instructions.size(), 0) {
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    for (const Wait& w : program.waits_of(program.instructions[i])) {
      if (w.threshold == 0) continue;
      waiters_[w.counter].push_back({w.threshold, i});
      ++waits_[i];
    }
  }
  for (std::vector<Waiter>& of_one : waiters_) {
    std::stable_sort(of_one.begin(), of_one.end(),
                     [](const Waiter& a, const Waiter& b) { return a.threshold < b.threshold; });
  }
}

std::vector<uint32_t> PartialRuns::thresholds(uint32_t counter) const {
  std::vector<uint32_t> out;
  for (const Waiter& w : waiters_[counter]) {
    if (out.empty() || out.back() != w.threshold) out.push_back(w.threshold);
  }
  return out;
}

// Counters only grow, so each wait ends once.
void PartialRuns::release(Run& run, uint32_t counter) const {
  const std::vector<Waiter>& waiters = waiters_[counter];
  uint32_t& next = run.next_waiter[counter];
  for (; next < waiters.size() && waiters[next].threshold <= run.count[counter]; ++next) {
    if (counter == run.held_counter && waiters[next].threshold >= run.held_threshold) return;
    const uint32_t instruction = waiters[next].instruction;
    if (--run.unmet[instruction] == 0) run.runnable.push_back(instruction);
  }
}

std::vector<uint32_t> PartialRuns::first_thresholds(uint32_t counter, std::span<const uint32_t> thresholds) {
  Run run{.held_counter = counter,
          .held_threshold = 0,
          .count = std::vector<uint64_t>(waiters_.size(), 0),
          .next_waiter = std::vector<uint32_t>(waiters_.size(), 0),
          .unmet = waits_,
          .runnable = {}};
  std::vector<uint32_t> first(waits_.size(), static_cast<uint32_t>(thresholds.size()));
  for (uint32_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i] == 0) run.runnable.push_back(i);
  }
  for (uint32_t t = 0; t < thresholds.size(); ++t) {
    run.held_threshold = thresholds[t];
    release(run, counter);
    while (!run.runnable.empty()) {
      const uint32_t i = run.runnable.back();
      run.runnable.pop_back();
      first[i] = t;
      ++steps_;
      for (const Signal& s : program_.signals_of(program_.instructions[i])) {
        run.count[s.counter] += s.increment;
        release(run, s.counter);
      }
    }
  }
  return first;
}

}  // namespace serval
