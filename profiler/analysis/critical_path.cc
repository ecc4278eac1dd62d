#include "profiler/analysis/critical_path.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "profiler/analysis/role_order.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using Kind = EventKind;
constexpr uint32_t kNoExecution = 0xffffffff;

// A moment on the path: an event of an execution.
struct Moment {
  uint32_t execution = kNoExecution;
  Kind kind = Kind::kSignalled;
  int64_t at_ns = kNever;
};

// A moment that another one had to wait for, and what the time between the two was spent on.
struct Cause {
  Moment moment;
  SliceState state = SliceState::kIdle;
  uint32_t counter = kNoCounter;
};

class PathWalk {
 public:
  PathWalk(const Trace& trace, std::span<const Edge> edges, const PassWindow& window);
  std::vector<PathStep> walk();

 private:
  using Orders = std::vector<std::vector<uint32_t>>;

  Moment end_of_window() const;
  void find_causes(const Moment& moment);
  void causes_of_inputs(uint32_t e);
  void causes_of_compute(uint32_t e);
  void causes_of_page(uint32_t e);
  void add_cause(uint32_t e, Kind kind, SliceState state, uint32_t counter = kNoCounter);
  void add_cause_before(uint32_t e, SmRole role, Kind kind, SliceState state);
  uint32_t computing_at(uint32_t sm, int64_t ns) const;
  void add_step(const Moment& to, const Cause& cause);
  void push(int64_t begin_ns, int64_t end_ns, uint32_t e, SmRole role, SliceState state,
            uint32_t counter = kNoCounter, bool over_link = false);
  uint32_t rank_of(uint32_t e) const { return trace_.program.rank_of(trace_.executions[e].sm); }

  const Trace& trace_;
  const std::span<const Edge> edges_;
  const PassWindow window_;
  std::array<std::vector<uint32_t>, kNumSmRoles> before_;  // [role][execution] the role's execution before it
  Orders consumers_;                                       // [SM] in order of compute_begin
  std::vector<Cause> causes_;                              // of the moment that walk() is at
  std::vector<PathStep> steps_;                            // in reverse order
};

PathWalk::PathWalk(const Trace& trace, std::span<const Edge> edges, const PassWindow& window)
    : trace_(trace), edges_(edges), window_(window) {
  for (uint32_t role = 0; role < kNumSmRoles; ++role) {
    before_[role].assign(trace.executions.size(), kNoExecution);
    Orders orders = role_order(trace, static_cast<SmRole>(role));
    for (const std::vector<uint32_t>& order : orders) {
      for (size_t n = 1; n < order.size(); ++n) before_[role][order[n]] = order[n - 1];
    }
    if (static_cast<SmRole>(role) == SmRole::kConsumer) consumers_ = std::move(orders);
  }
}

// The signal that opens the gate. With several GPUs, the simulator's gate may see it later than it is given.
Moment PathWalk::end_of_window() const {
  Moment last;
  for (uint32_t e = 0; e < trace_.executions.size(); ++e) {
    const Execution& x = trace_.executions[e];
    const int64_t at = x.time(Kind::kSignalled);
    const bool may_be_late = trace_.program.ranks > 1 && at < window_.end_ns;
    if (x.pass != window_.pass || at <= last.at_ns || (at != window_.end_ns && !may_be_late)) continue;
    if (signals_gate(trace_.program, x.instruction)) last = {e, Kind::kSignalled, at};
  }
  return last;
}

void PathWalk::add_cause(uint32_t e, Kind kind, SliceState state, uint32_t counter) {
  const int64_t at = trace_.executions[e].time(kind);
  if (at != kNever) causes_.push_back({{e, kind, at}, state, counter});
}

void PathWalk::add_cause_before(uint32_t e, SmRole role, Kind kind, SliceState state) {
  const uint32_t before = before_[static_cast<size_t>(role)][e];
  if (before != kNoExecution) add_cause(before, kind, state);
}

void PathWalk::causes_of_inputs(uint32_t e) {
  const auto [first, last] = std::equal_range(edges_.begin(), edges_.end(), Edge{.to = e},
                                              [](const Edge& a, const Edge& b) { return a.to < b.to; });
  for (auto edge = first; edge != last; ++edge)
    add_cause(edge->from, Kind::kSignalled, SliceState::kWait, edge->counter);
  add_cause(e, Kind::kFetched, SliceState::kIdle);
  add_cause_before(e, SmRole::kPreparer, Kind::kPrepared, SliceState::kIdle);
  // On the host one thread does all roles of an instruction before it looks at the next one.
  if (trace_.source == TraceSource::kHost)
    add_cause_before(e, SmRole::kStorer, Kind::kSignalled, SliceState::kIdle);
}

void PathWalk::causes_of_compute(uint32_t e) {
  add_cause(e, Kind::kPrepared, SliceState::kLoad);
  add_cause(e, Kind::kInputsReady, SliceState::kLoad);
  add_cause(e, Kind::kFirstLanded, SliceState::kLoad);
  add_cause_before(e, SmRole::kConsumer, Kind::kComputeEnd, SliceState::kIdle);
}

uint32_t PathWalk::computing_at(uint32_t sm, int64_t ns) const {
  const std::vector<uint32_t>& order = consumers_[sm];
  const auto after = std::upper_bound(order.begin(), order.end(), ns, [&](int64_t at, uint32_t e) {
    return at < trace_.executions[e].time(Kind::kComputeBegin);
  });
  return after == order.begin() ? kNoExecution : *(after - 1);
}

// A page lands after its load began. Where no page was free at first, the load also waited for the
// instruction that was computing when one became free.
void PathWalk::causes_of_page(uint32_t e) {
  add_cause(e, Kind::kLoadBegin, SliceState::kLoad);
  const Execution& x = trace_.executions[e];
  if (x.room_ns == 0 || !x.has(Kind::kLoadBegin)) return;
  const int64_t room_ns = x.time(Kind::kLoadBegin) + x.room_ns;
  const uint32_t giver = computing_at(x.sm, room_ns);
  if (giver != kNoExecution) causes_.push_back({{giver, Kind::kComputeEnd, room_ns}, SliceState::kLoad});
}

void PathWalk::find_causes(const Moment& moment) {
  causes_.clear();
  const uint32_t e = moment.execution;
  switch (moment.kind) {
    case Kind::kSignalled:
      add_cause(e, Kind::kStored, SliceState::kSignal);
      if (causes_.empty()) add_cause(e, Kind::kInputsReady, SliceState::kSignal);  // nothing to do
      return;
    case Kind::kStored:
      return add_cause(e, Kind::kStoreBegin, SliceState::kStore);
    case Kind::kStoreBegin:
      add_cause(e, Kind::kComputeEnd, SliceState::kStore);
      return add_cause_before(e, SmRole::kStorer, Kind::kSignalled, SliceState::kIdle);
    case Kind::kComputeEnd:
      return add_cause(e, Kind::kComputeBegin, SliceState::kCompute);
    case Kind::kComputeBegin:
      return causes_of_compute(e);
    case Kind::kPrepared:
      return add_cause(e, Kind::kInputsReady, SliceState::kLoad);
    case Kind::kInputsReady:
    case Kind::kWaitBegin:
      return causes_of_inputs(e);
    case Kind::kFirstLanded:
    case Kind::kLastLanded:
    case Kind::kLoadIssued:
      return causes_of_page(e);
    case Kind::kLoadBegin:
      add_cause(e, Kind::kFetched, SliceState::kIdle);
      return add_cause_before(e, SmRole::kLoader, Kind::kLoadIssued, SliceState::kIdle);
    case Kind::kFetched:
      return add_cause(e, Kind::kFetchBegin, SliceState::kFetch);
    case Kind::kFetchBegin:
      return add_cause_before(e, SmRole::kController, Kind::kFetched, SliceState::kIdle);
  }
}

void PathWalk::push(int64_t begin_ns, int64_t end_ns, uint32_t e, SmRole role, SliceState state,
                    uint32_t counter, bool over_link) {
  begin_ns = std::max(begin_ns, window_.begin_ns);
  if (begin_ns < end_ns) steps_.push_back({begin_ns, end_ns, e, counter, role, state, over_link});
}

void PathWalk::add_step(const Moment& to, const Cause& cause) {
  const SmRole role = info_of(to.kind).role;
  int64_t begin = cause.moment.at_ns, end = to.at_ns;
  if (cause.state == SliceState::kCompute) {
    // For the first part of it, the consumers waited for pages.
    const int64_t starved_end = std::min(begin + trace_.executions[to.execution].starved_ns, end);
    push(starved_end, end, to.execution, role, SliceState::kCompute);
    push(begin, starved_end, to.execution, role, SliceState::kLoad);
    return;
  }
  const bool over_link = rank_of(cause.moment.execution) != rank_of(to.execution);
  push(begin, end, to.execution, role, cause.state, cause.counter, over_link);
}

std::vector<PathStep> PathWalk::walk() {
  Moment at = end_of_window();
  if (at.execution == kNoExecution) return {};
  push(at.at_ns, window_.end_ns, at.execution, SmRole::kStorer, SliceState::kSignal);
  // In a trace that can have happened, no moment comes twice: the limit ends the walk on any other.
  size_t left = trace_.executions.size() * kNumEventKinds + 1;
  while (at.at_ns > window_.begin_ns) {
    find_causes(at);
    // Clocks of SMs are a little apart, so a cause may seem later than its effect.
    for (Cause& c : causes_) c.moment.at_ns = std::min(c.moment.at_ns, at.at_ns);
    const auto last = std::max_element(causes_.begin(), causes_.end(), [](const Cause& a, const Cause& b) {
      return a.moment.at_ns < b.moment.at_ns;
    });
    if (left-- == 0) throw Error(ErrorKind::kRuntime, "trace: instructions wait for each other in a circle");
    if (last == causes_.end()) break;
    add_step(at, *last);
    at = last->moment;
  }
  push(window_.begin_ns, at.at_ns, at.execution, info_of(at.kind).role, SliceState::kIdle);
  std::reverse(steps_.begin(), steps_.end());
  return std::move(steps_);
}

}  // namespace

std::vector<PathStep> critical_path(const Trace& trace, std::span<const Edge> edges,
                                    const PassWindow& window) {
  return PathWalk(trace, edges, window).walk();
}

std::vector<uint32_t> executions_of(std::span<const PathStep> path) {
  std::vector<uint32_t> out;
  for (const PathStep& step : path) {
    if (std::find(out.begin(), out.end(), step.execution) == out.end()) out.push_back(step.execution);
  }
  return out;
}

}  // namespace serval
