#include "profiler/trace/last_signals.h"

namespace serval {

LastSignals::LastSignals(const Trace& trace) : trace_(trace) {
  const TraceProgram& program = trace.program;
  for (uint32_t e = 0; e < trace.executions.size(); ++e) {
    const Execution& x = trace.executions[e];
    const int64_t at = x.time(EventKind::kSignalled);
    if (at == kNever) continue;
    const TraceInstruction& i = program.instructions[x.instruction];
    for (uint32_t s = i.signal_begin; s < i.signal_begin + i.signal_count; ++s) {
      std::vector<RankSignals>& ranks = of_[{x.pass, program.signals[s].counter}];
      ranks.resize(program.ranks);
      RankSignals& of_rank = ranks[program.rank_of(x.sm)];
      if (at > of_rank.last_ns) of_rank = {at, e};
    }
  }
}

const std::vector<RankSignals>* LastSignals::before(const Wait& wait, uint32_t pass) const {
  const bool all = wait.threshold == 0 || wait.threshold == trace_.program.increments_per_pass[wait.counter];
  if (!all || (wait.threshold == 0 && pass == 0)) return nullptr;
  const auto found = of_.find({wait.threshold == 0 ? pass - 1 : pass, wait.counter});
  return found == of_.end() ? nullptr : &found->second;
}

}  // namespace serval
