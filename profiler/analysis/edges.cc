#include "profiler/analysis/edges.h"

#include <algorithm>
#include <map>
#include <utility>

namespace serval {
namespace {

struct Increment {
  int64_t at_ns;
  uint32_t by;  // execution
  uint32_t amount;
};

// All signals by counter and pass, in order of time.
class SignalLog {
 public:
  explicit SignalLog(const Trace& trace) : trace_(trace) {
    for (uint32_t e = 0; e < trace.executions.size(); ++e) add(e);
    for (auto& [key, log] : log_) {
      std::stable_sort(log.begin(), log.end(),
                       [](const Increment& a, const Increment& b) { return a.at_ns < b.at_ns; });
    }
  }

  // The increment with which the counter reached `threshold` in this pass; for threshold 0, the one that
  // completed it in the pass before.
  const Increment* reaching(uint32_t counter, uint32_t pass, uint32_t threshold) const {
    if (threshold == 0) {
      if (pass == 0) return nullptr;
      return reaching(counter, pass - 1, trace_.program.increments_per_pass[counter]);
    }
    const auto found = log_.find({pass, counter});
    if (found == log_.end()) return nullptr;
    uint64_t sum = 0;
    for (const Increment& increment : found->second) {
      sum += increment.amount;
      if (sum >= threshold) return &increment;
    }
    return nullptr;
  }

 private:
  void add(uint32_t e) {
    const Execution& x = trace_.executions[e];
    if (!x.has(EventKind::kSignalled)) return;
    const TraceInstruction& i = trace_.program.instructions[x.instruction];
    for (uint32_t s = i.signal_begin; s < i.signal_begin + i.signal_count; ++s) {
      const Signal& signal = trace_.program.signals[s];
      log_[{x.pass, signal.counter}].push_back({x.time(EventKind::kSignalled), e, signal.increment});
    }
  }

  const Trace& trace_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Increment>> log_;  // by pass and counter
};

class Edges {
 public:
  explicit Edges(const Trace& trace) : trace_(trace), log_(trace) {}

  std::vector<Edge> find() {
    std::vector<Edge> out;
    uint32_t pass = 0, sm = kNoSm;
    for (uint32_t e = 0; e < trace_.executions.size(); ++e) {
      const Execution& x = trace_.executions[e];
      const bool begins_pass = x.sm != sm || x.pass != pass;
      sm = x.sm;
      pass = x.pass;
      add(out, e, begins_pass);
    }
    return out;
  }

 private:
  static constexpr uint32_t kNoSm = 0xffffffff;

  void add(std::vector<Edge>& out, uint32_t e, bool begins_pass) const {
    const Execution& x = trace_.executions[e];
    if (!x.has(EventKind::kInputsReady)) return;
    if (begins_pass) add_wait(out, e, trace_.program.gate_of(trace_.program.rank_of(x.sm)), 0);
    const TraceInstruction& i = trace_.program.instructions[x.instruction];
    for (uint32_t w = i.wait_begin; w < i.wait_begin + i.wait_count; ++w) {
      add_wait(out, e, trace_.program.waits[w].counter, trace_.program.waits[w].threshold);
    }
  }
  void add_wait(std::vector<Edge>& out, uint32_t e, uint32_t counter, uint32_t threshold) const {
    const Increment* last = log_.reaching(counter, trace_.executions[e].pass, threshold);
    if (last != nullptr) out.push_back({last->by, e, counter, last->at_ns});
  }

  const Trace& trace_;
  const SignalLog log_;
};

}  // namespace

bool crosses_link(const Trace& trace, const Edge& edge) {
  const TraceProgram& program = trace.program;
  return program.rank_of(trace.executions[edge.from].sm) != program.rank_of(trace.executions[edge.to].sm);
}

std::vector<Edge> edges_of(const Trace& trace) {
  return Edges(trace).find();
}

}  // namespace serval
