#include "profiler/report/report.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "profiler/analysis/exchanges.h"
#include "vm/base/error.h"
#include "vm/base/statistics.h"

namespace serval {
namespace {

using Kind = EventKind;

class Reporter {
 public:
  explicit Reporter(const Trace& trace)
      : trace_(trace),
        tokens_(static_cast<double>(trace.windows.size())),
        slices_(slices_of(trace)),
        edges_(edges_of(trace)) {}

  Report run();

 private:
  const std::string& op_of(uint32_t execution) const {
    const Execution& x = trace_.executions[execution];
    return trace_.program.ops[trace_.program.instructions[x.instruction].op];
  }
  bool in_window(const Execution& x) const { return x.pass <= trace_.windows.back().pass; }
  void add_times();
  void add_throughput();
  void add_path();
  void add_ops();
  void add_sms();
  void add_worst_waits();
  void add_stragglers();
  void add_exchanges();
  uint32_t op_index(uint32_t execution) const {
    return trace_.program.instructions[trace_.executions[execution].instruction].op;
  }

  const Trace& trace_;
  const double tokens_;
  const std::vector<Slice> slices_;
  const std::vector<Edge> edges_;
  Report report_;
};

void Reporter::add_times() {
  report_.source = trace_.source;
  report_.metadata = trace_.metadata;
  report_.ranks = trace_.program.ranks;
  report_.sms = trace_.program.machine.sms;
  report_.tokens = static_cast<uint32_t>(trace_.windows.size());
  for (const PassWindow& w : trace_.windows) report_.token_ns.push_back(static_cast<double>(w.length_ns()));
  report_.median_token_ns = median(report_.token_ns);
}

void Reporter::add_throughput() {
  constexpr double kGflopOfTflop = 1e3;
  double bytes = 0, operations = 0;
  for (const Execution& x : trace_.executions) {
    if (!in_window(x)) continue;
    bytes += static_cast<double>(x.bytes);
    operations += static_cast<double>(trace_.program.instructions[x.instruction].operations);
  }
  bytes /= tokens_;
  operations /= tokens_;
  report_.bytes = static_cast<uint64_t>(bytes);
  report_.operations = static_cast<uint64_t>(operations);
  report_.gb_per_s = bytes / report_.median_token_ns;  // a byte a nanosecond is 1e9 bytes a second
  report_.tflop_per_s = operations / report_.median_token_ns / kGflopOfTflop;
  // On the host, the machine's limits are only guesses of the cost model.
  if (trace_.source != TraceSource::kHost) {
    const Machine& machine = trace_.program.machine;
    report_.limit_gb_per_s = machine.gb_per_s * trace_.program.ranks;
    report_.limit_tflop_per_s = machine.sm_gflop_per_s * machine.sms / kGflopOfTflop;
  }
  if (report_.limit_gb_per_s > 0) report_.limit_ns = bytes / report_.limit_gb_per_s;
  if (report_.limit_tflop_per_s > 0)
    report_.compute_limit_ns = operations / (report_.limit_tflop_per_s * kGflopOfTflop);
  report_.bandwidth = tracks_of(trace_, default_bin_ns(trace_)).front();
}

void Reporter::add_path() {
  std::map<std::tuple<std::string, SliceState, bool>, PathSummary> sums;
  for (const PassWindow& window : trace_.windows) {
    for (const PathStep& step : critical_path(trace_, edges_, window)) {
      PathSummary& sum = sums[{op_of(step.execution), step.state, step.over_link}];
      sum.ns += static_cast<double>(step.end_ns - step.begin_ns) / tokens_;
      sum.steps += 1 / tokens_;
    }
  }
  for (auto& [key, sum] : sums) {
    std::tie(sum.op, sum.state, sum.over_link) = key;
    report_.path.push_back(sum);
  }
  std::stable_sort(report_.path.begin(), report_.path.end(),
                   [](const PathSummary& a, const PathSummary& b) { return a.ns > b.ns; });
}

void Reporter::add_ops() {
  std::vector<OpSummary> ops(trace_.program.ops.size());
  for (size_t o = 0; o < ops.size(); ++o) ops[o].op = trace_.program.ops[o];
  for (const TraceInstruction& i : trace_.program.instructions) ++ops[i.op].executions;
  const auto op_at = [&](const Execution& x) -> OpSummary& {
    return ops[trace_.program.instructions[x.instruction].op];
  };
  std::vector<double> bytes(ops.size(), 0);
  for (const Execution& x : trace_.executions) {
    if (in_window(x)) bytes[trace_.program.instructions[x.instruction].op] += static_cast<double>(x.bytes);
  }
  for (size_t o = 0; o < ops.size(); ++o) ops[o].bytes = static_cast<uint64_t>(bytes[o] / tokens_);
  for (const Slice& s : slices_) {
    const Execution& x = trace_.executions[s.execution];
    if (!in_window(x)) continue;
    OpSummary& op = op_at(x);
    const double ns = static_cast<double>(s.end_ns - s.begin_ns) / tokens_;
    if (s.role == SmRole::kStorer) op.store_ns += ns;
    if (s.role != SmRole::kConsumer) continue;
    (s.state == SliceState::kWait   ? op.wait_ns
     : s.state == SliceState::kLoad ? op.load_ns
                                    : op.compute_ns) += ns;
  }
  report_.ops = std::move(ops);
}

void Reporter::add_sms() {
  report_.by_sm.resize(report_.sms);
  for (uint32_t sm = 0; sm < report_.sms; ++sm) {
    report_.by_sm[sm].sm = sm;
    report_.by_sm[sm].name = sm_name(trace_.program, sm);
  }
  for (const PassWindow& window : trace_.windows) {
    const std::vector<StateTimes> times = state_times(trace_, slices_, window);
    for (SmSummary& sm : report_.by_sm) {
      const StateTimes& of = times[index_of_role(sm.sm, SmRole::kConsumer)];
      const auto ns = [&](SliceState state) {
        return static_cast<double>(of[static_cast<size_t>(state)]) / tokens_;
      };
      sm.compute_ns += ns(SliceState::kCompute);
      sm.wait_ns += ns(SliceState::kWait);
      sm.load_ns += ns(SliceState::kLoad);
      sm.idle_ns += ns(SliceState::kIdle);
    }
  }
  for (const Execution& x : trace_.executions) {
    if (in_window(x)) report_.by_sm[x.sm].bytes += x.bytes / report_.tokens;
  }
  std::vector<double> bytes, compute;
  for (const SmSummary& sm : report_.by_sm) {
    bytes.push_back(static_cast<double>(sm.bytes));
    compute.push_back(sm.compute_ns);
  }
  report_.imbalance = imbalance_of(bytes);
  report_.compute_imbalance = imbalance_of(compute);
}

void Reporter::add_worst_waits() {
  std::map<std::pair<uint32_t, std::string>, double> waits;  // [SM, op]
  for (const Slice& s : slices_) {
    if (s.role != SmRole::kConsumer || s.state != SliceState::kWait) continue;
    waits[{s.sm, op_of(s.execution)}] += static_cast<double>(s.end_ns - s.begin_ns) / tokens_;
  }
  for (const auto& [key, ns] : waits) {
    SmSummary& sm = report_.by_sm[key.first];
    if (ns <= sm.worst_wait_ns) continue;
    sm.worst_wait = key.second;
    sm.worst_wait_ns = ns;
  }
}

// Compares the last execution of each join with the median of its op there.
void Reporter::add_stragglers() {
  constexpr size_t kMostStragglers = 10;
  using Join = std::tuple<uint32_t, uint32_t, uint32_t>;  // pass, counter, op
  std::map<Join, std::vector<double>> signalled;
  const auto join_of = [&](const Execution& x, uint32_t counter) {
    return Join{x.pass, counter, trace_.program.instructions[x.instruction].op};
  };
  for (const Execution& x : trace_.executions) {
    if (!x.has(Kind::kSignalled)) continue;
    const TraceInstruction& i = trace_.program.instructions[x.instruction];
    for (uint32_t s = i.signal_begin; s < i.signal_begin + i.signal_count; ++s)
      signalled[join_of(x, trace_.program.signals[s].counter)].push_back(
          static_cast<double>(x.time(Kind::kSignalled)));
  }
  std::map<std::pair<uint32_t, uint32_t>, Straggler> found;  // [execution, counter]
  for (const Edge& edge : edges_) {
    const Execution& x = trace_.executions[edge.from];
    const std::vector<double>& others = signalled.at(join_of(x, edge.counter));
    const auto [straggler, is_new] = found.try_emplace({edge.from, edge.counter});
    if (!is_new) continue;
    const TraceInstruction& i = trace_.program.instructions[x.instruction];
    straggler->second = {.execution = edge.from,
                         .op = op_of(edge.from),
                         .layer = i.layer,
                         .sm = x.sm,
                         .sm_name = sm_name(trace_.program, x.sm),
                         .counter = edge.counter,
                         .late_ns = static_cast<double>(edge.signalled_ns) - median(others)};
  }
  for (const auto& [key, straggler] : found) {
    if (straggler.late_ns > 0) report_.stragglers.push_back(straggler);
  }
  std::stable_sort(report_.stragglers.begin(), report_.stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.late_ns > b.late_ns; });
  report_.stragglers.resize(std::min(report_.stragglers.size(), kMostStragglers));
}

void Reporter::add_exchanges() {
  if (report_.ranks == 1) return;
  const TraceProgram& program = trace_.program;
  std::map<uint32_t, ExchangeSummary> by_op;
  for (const TracePush& push : program.pushes)
    by_op[program.instructions[push.instruction].op].bytes += push.bytes;
  std::map<uint32_t, uint32_t> awaited;
  std::set<std::pair<uint32_t, uint32_t>> counted;  // pass, counter
  for (const PeerWait& wait : peer_waits(trace_, slices_)) {
    const Execution& x = trace_.executions[wait.to];
    if (!in_window(x)) continue;
    const uint32_t op = op_index(wait.from);
    ExchangeSummary& sum = by_op[op];
    if (counted.emplace(x.pass, wait.counter).second) sum.exchanges += 1 / tokens_;
    sum.exposed_ns += static_cast<double>(wait.exposed_ns) / tokens_;
    sum.hidden_ns += static_cast<double>(wait.hidden_ns) / tokens_;
    if (!wait.awaited) continue;
    sum.transit_ns += static_cast<double>(wait.seen_ns - wait.sent_ns);
    ++awaited[op];
  }
  for (auto& [op, sum] : by_op) {
    sum.op = program.ops[op];
    if (awaited[op] > 0) sum.transit_ns /= awaited[op];
    report_.exchanges.push_back(sum);
  }
  std::stable_sort(
      report_.exchanges.begin(), report_.exchanges.end(),
      [](const ExchangeSummary& a, const ExchangeSummary& b) { return a.exposed_ns > b.exposed_ns; });
}

Report Reporter::run() {
  add_times();
  add_throughput();
  add_path();
  add_ops();
  add_sms();
  add_worst_waits();
  add_stragglers();
  add_exchanges();
  return std::move(report_);
}

}  // namespace

const char* PathSummary::state_name() const {
  return over_link ? kLinkState : kSliceStateNames[static_cast<size_t>(state)];
}

Report report_of(const Trace& trace) {
  if (trace.windows.empty()) throw Error(ErrorKind::kRuntime, "trace: no token to report on");
  return Reporter(trace).run();
}

}  // namespace serval
