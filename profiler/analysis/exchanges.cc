#include "profiler/analysis/exchanges.h"

#include <algorithm>

#include "profiler/trace/last_signals.h"

namespace serval {
namespace {

using Kind = EventKind;

struct Stretch {
  int64_t begin_ns = 0, end_ns = 0;
};

int64_t common_ns(const Stretch& a, const Stretch& b) {
  return std::max<int64_t>(0, std::min(a.end_ns, b.end_ns) - std::max(a.begin_ns, b.begin_ns));
}

// [execution] when its consumers waited for counters; empty stretches for those that did not.
std::vector<Stretch> consumers_waits(const Trace& trace, std::span<const Slice> slices) {
  std::vector<Stretch> waits(trace.executions.size());
  for (const Slice& s : slices) {
    if (s.role == SmRole::kConsumer && s.state == SliceState::kWait)
      waits[s.execution] = {s.begin_ns, s.end_ns};
  }
  return waits;
}

// True if the wait guards only memory that the instruction pushes to: readers on the other GPU must have read
// the old contents first.
bool guards_only_pushes(const TraceProgram& program, uint32_t instruction, const Wait& wait) {
  uint32_t pushed = 0;
  for (const TracePush& push : pushes_of(program, instruction)) pushed |= push.operands;
  return wait.operand_mask != 0 && (wait.operand_mask & ~pushed) == 0;
}

// The last signals that an execution needed, from its own GPU and from others.
class Needed {
 public:
  Needed(const Trace& trace, const LastSignals& signals, uint32_t execution) {
    const Execution& x = trace.executions[execution];
    const TraceInstruction& i = trace.program.instructions[x.instruction];
    const uint32_t own = trace.program.rank_of(x.sm);
    for (uint32_t w = i.wait_begin; w < i.wait_begin + i.wait_count; ++w) {
      const Wait& wait = trace.program.waits[w];
      if (guards_only_pushes(trace.program, x.instruction, wait)) continue;
      const std::vector<RankSignals>* before = signals.before(wait, x.pass);
      for (uint32_t rank = 0; before != nullptr && rank < before->size(); ++rank)
        add((*before)[rank], wait.counter, rank == own);
    }
  }

  int64_t own_ns = kNever;  // the last from its own GPU
  RankSignals peer;         // … and from others
  uint32_t counter = kNoCounter;

 private:
  void add(const RankSignals& signals, uint32_t of, bool own) {
    if (own) {
      own_ns = std::max(own_ns, signals.last_ns);
    } else if (signals.last_ns > peer.last_ns) {
      peer = signals;
      counter = of;
    }
  }
};

}  // namespace

std::vector<PeerWait> peer_waits(const Trace& trace, std::span<const Slice> slices) {
  if (trace.program.ranks == 1) return {};
  const LastSignals signals(trace);
  const std::vector<Stretch> waits = consumers_waits(trace, slices);
  std::vector<PeerWait> out;
  for (uint32_t e = 0; e < trace.executions.size(); ++e) {
    const Execution& x = trace.executions[e];
    const Needed needed(trace, signals, e);
    if (needed.counter == kNoCounter || !x.has(Kind::kInputsReady)) continue;
    PeerWait wait{
        .from = needed.peer.last, .to = e, .counter = needed.counter, .sent_ns = needed.peer.last_ns};
    // The GPUs' clocks differ a little.
    wait.seen_ns = std::max(x.time(Kind::kInputsReady), wait.sent_ns);
    if (wait.sent_ns > needed.own_ns) wait.exposed_ns = common_ns(waits[e], {needed.own_ns, wait.seen_ns});
    wait.hidden_ns = wait.seen_ns - wait.sent_ns - common_ns(waits[e], {wait.sent_ns, wait.seen_ns});
    wait.awaited =
        x.has(Kind::kWaitBegin) && x.time(Kind::kWaitBegin) <= wait.sent_ns && wait.sent_ns > needed.own_ns;
    out.push_back(wait);
  }
  return out;
}

}  // namespace serval
