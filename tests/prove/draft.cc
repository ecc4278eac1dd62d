#include "tests/prove/draft.h"

namespace serval::testing {

Draft::Draft(const Program& program) : rest(program), queues(program.num_queues()) {
  for (uint32_t q = 0; q < program.num_queues(); ++q) {
    for (const Instruction& i : program.queue(q)) {
      const auto waits = program.waits_of(i);
      const auto signals = program.signals_of(i);
      queues[q].push_back({i, {waits.begin(), waits.end()}, {signals.begin(), signals.end()}});
    }
  }
  rest.instructions.clear();
  rest.queue_begin.clear();
  rest.waits.clear();
  rest.signals.clear();
}

Program Draft::assemble() const {
  Program out = rest;
  out.queue_begin.push_back(0);
  for (const std::vector<Step>& queue : queues) {
    for (const Step& step : queue) {
      Instruction i = step.record;
      i.wait_begin = static_cast<uint32_t>(out.waits.size());
      i.wait_count = static_cast<uint16_t>(step.waits.size());
      i.signal_begin = static_cast<uint32_t>(out.signals.size());
      i.signal_count = static_cast<uint16_t>(step.signals.size());
      out.waits.insert(out.waits.end(), step.waits.begin(), step.waits.end());
      out.signals.insert(out.signals.end(), step.signals.begin(), step.signals.end());
      out.instructions.push_back(i);
    }
    out.queue_begin.push_back(static_cast<uint32_t>(out.instructions.size()));
  }
  return out;
}

void Draft::count_increments() {
  for (Counter& counter : rest.counters) counter.increments_per_pass = 0;
  for (const Step* step : steps()) {
    for (const Signal& s : step->signals) rest.counters[s.counter].increments_per_pass += s.increment;
  }
}

void Draft::count_increments_and_follow() {
  const std::vector<Counter> before = rest.counters;
  count_increments();
  for (Step* step : steps()) {
    for (Wait& w : step->waits) {
      if (w.threshold != 0 && w.threshold == before[w.counter].increments_per_pass)
        w.threshold = rest.counters[w.counter].increments_per_pass;
    }
  }
}

std::vector<Step*> Draft::steps() {
  std::vector<Step*> out;
  for (std::vector<Step>& queue : queues) {
    for (Step& step : queue) out.push_back(&step);
  }
  return out;
}

}  // namespace serval::testing
