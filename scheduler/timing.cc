#include "scheduler/timing.h"

#include <algorithm>
#include <fmt/format.h>

#include "scheduler/placement.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr uint32_t kNoInstruction = 0xffffffff;

struct Arrival {  // the latest increment of a counter
  double at_us = 0;
  uint32_t by = kNoInstruction;
};

class Simulation {
 public:
  Simulation(const Program& program, const CostContext& context, bool unlimited)
      : program_(program),
        context_(context),
        unlimited_(unlimited),
        counted_(program.counters.size(), 0),
        counter_at_(program.counters.size()),
        clocks_(program.num_sms(), SmClock(program.machine)),
        last_on_sm_(program.num_sms(), kNoInstruction),
        start_after_(program.instructions.size(), kNoInstruction) {}

  PassTiming run();

 private:
  bool try_run(uint32_t queue, uint32_t index);
  size_t pick_sm(uint32_t queue) const;

  const Program& program_;
  const CostContext& context_;
  const bool unlimited_;
  std::vector<uint64_t> counted_;
  std::vector<Arrival> counter_at_;
  std::vector<SmClock> clocks_;
  std::vector<uint32_t> last_on_sm_;
  std::vector<uint32_t> start_after_;  // of each instruction: the one that delayed its start most
  Arrival last_;
};

size_t Simulation::pick_sm(uint32_t queue) const {
  if (program_.queue_kind == QueueKind::kPerSm) return queue;
  const auto earliest = [](const SmClock& a, const SmClock& b) { return a.free_us() < b.free_us(); };
  return static_cast<size_t>(std::min_element(clocks_.begin(), clocks_.end(), earliest) - clocks_.begin());
}

bool Simulation::try_run(uint32_t queue, uint32_t index) {
  const Instruction& instruction = program_.instructions[index];
  Arrival start;
  for (const Wait& w : program_.waits_of(instruction)) {
    if (counted_[w.counter] < w.threshold) return false;
    const Arrival& c = counter_at_[w.counter];
    const double at_us = w.threshold > 0 ? c.at_us + program_.machine.synchronise_us : 0;
    if (at_us > start.at_us) start = {at_us, c.by};
  }
  const NodeTime time = node_time(instruction, program_, program_.tensors, program_.machine, context_);
  double end_us = start.at_us + time.busy_us;
  if (!unlimited_) {
    const size_t sm = pick_sm(queue);
    if (clocks_[sm].free_us() > start.at_us) start.by = last_on_sm_[sm];
    end_us = clocks_[sm].run(start.at_us, time);
    last_on_sm_[sm] = index;
  }
  start_after_[index] = start.by;
  for (const Signal& s : program_.signals_of(instruction)) {
    counted_[s.counter] += s.increment;
    if (end_us >= counter_at_[s.counter].at_us) counter_at_[s.counter] = {end_us, index};
  }
  if (end_us >= last_.at_us) last_ = {end_us, index};
  return true;
}

PassTiming Simulation::run() {
  std::vector<uint32_t> next(program_.queue_begin.begin(), program_.queue_begin.end() - 1);
  for (size_t done = 0; done < program_.instructions.size();) {
    const size_t before = done;
    for (uint32_t q = 0; q < next.size(); ++q) {
      for (; next[q] < program_.queue_begin[q + 1] && try_run(q, next[q]); ++next[q]) ++done;
    }
    if (done == before) {
      throw Error(ErrorKind::kRuntime, fmt::format("program: deadlock after {} of {} instructions", done,
                                                   program_.instructions.size()));
    }
  }
  PassTiming out{last_.at_us, {}};
  for (uint32_t i = last_.by; i != kNoInstruction; i = start_after_[i]) out.critical_path.push_back(i);
  std::reverse(out.critical_path.begin(), out.critical_path.end());
  return out;
}

}  // namespace

PassTiming time_pass(const Program& program, const CostContext& context, bool unlimited) {
  return Simulation(program, context, unlimited).run();
}

}  // namespace serval
