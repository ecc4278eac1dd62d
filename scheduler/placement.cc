#include "scheduler/placement.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace serval {
namespace {

constexpr double kUsPerGbPerS = 1e-3;  // a byte at 1 GB/s takes 1e-3 µs
// Bandwidth of all stores of a GPU to its peers: of an H200 to seven others.
constexpr double kLinkGbPerS = 333;

// For each SM, the time until which it is busy, or the total time of its nodes.
class Loads {
 public:
  explicit Loads(uint32_t sms) : until_(sms, 0) {
    for (uint32_t sm = 0; sm < sms; ++sm) queue_.push({0, sm});
  }
  uint32_t least() {
    while (queue_.top().until != until_[queue_.top().sm]) queue_.pop();  // outdated entries
    return queue_.top().sm;
  }
  double of(uint32_t sm) const { return until_[sm]; }
  void set(uint32_t sm, double until) {
    until_[sm] = until;
    queue_.push({until, sm});
  }

 private:
  struct Load {
    double until;
    uint32_t sm;
    friend bool operator>(const Load& a, const Load& b) {
      return a.until != b.until ? a.until > b.until : a.sm > b.sm;
    }
  };
  std::vector<double> until_;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> queue_;
};

double stream_gb_per_s(const Machine& machine) {
  return std::min(machine.sm_gb_per_s, machine.gb_per_s / machine.sms);
}

// The SM of its device that the node must run on (OpInfo::home); other() if it may run on any.
template <class Other>
uint32_t home_or(const Graph& graph, uint32_t node, uint32_t sms, Other&& other) {
  const Instruction& instruction = graph.nodes[node];
  const std::optional<uint32_t> home = op_info(instruction.opcode).home(instruction);
  return home ? *home % sms : other();
}

// Places each node on SM step(nth) of its device; `nth` is the node's number on that device.
template <class Step>
Placement place_each(const Graph& graph, uint32_t sms, Step&& step) {
  Placement out(size_t{graph.num_devices} * sms);
  std::vector<uint32_t> placed(graph.num_devices, 0);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const uint32_t device = graph.device_of_node(n);
    const uint32_t nth = placed[device]++;
    out[device * sms + home_or(graph, n, sms, [&] { return step(nth); })].push_back(n);
  }
  return out;
}

Placement round_robin(const Graph& graph, uint32_t sms) {
  return place_each(graph, sms, [&](uint32_t nth) { return nth % sms; });
}

Placement zig_zag(const Graph& graph, uint32_t sms) {
  return place_each(graph, sms, [&](uint32_t nth) {
    const uint32_t lap = nth / sms, step = nth % sms;
    return lap % 2 == 0 ? step : sms - 1 - step;
  });
}

Placement wave(const Graph& graph, uint32_t sms, const std::vector<NodeTime>& times) {
  Placement out(size_t{graph.num_devices} * sms);
  std::vector<Loads> all_loads(graph.num_devices, Loads(sms));
  std::vector<uint32_t> order;
  for (const Stage& stage : graph.stages) {
    order.resize(stage.num_nodes);
    std::iota(order.begin(), order.end(), stage.first_node);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return times[a].total_us() > times[b].total_us(); });
    for (const uint32_t n : order) {
      const uint32_t device = graph.device_of_node(n);
      Loads& loads = all_loads[device];
      const uint32_t sm = home_or(graph, n, sms, [&] { return loads.least(); });
      out[device * sms + sm].push_back(n);
      loads.set(sm, loads.of(sm) + times[n].total_us());
    }
  }
  // Each SM runs its nodes in serial order.
  for (std::vector<uint32_t>& nodes : out) std::sort(nodes.begin(), nodes.end());
  return out;
}

// For each join, the nodes that wait for it in the same pass.
Lists<uint32_t> waiters_of(const Dependencies& deps) {
  return Lists<uint32_t>::filled(deps.joins.size(), [&](const auto& add) {
    for (uint32_t n = 0; n < deps.waits.size(); ++n) {
      for (const JoinWait& wait : deps.waits[n]) {
        if (!wait.previous_pass) add(wait.join, n);
      }
    }
  });
}

// For each node, the longest time from its start to the end of the pass, with unlimited SMs.
std::vector<double> time_to_end(const Dependencies& deps, const Machine& machine,
                                const std::vector<NodeTime>& times) {
  std::vector<double> of_node(deps.waits.size()), of_join(deps.joins.size(), 0);
  for (uint32_t n = static_cast<uint32_t>(of_node.size()); n-- > 0;) {
    double after = 0;
    for (const uint32_t j : deps.signals[n]) {
      if (of_join[j] > 0) after = std::max(after, of_join[j] + machine.synchronise_us);
    }
    of_node[n] = times[n].total_us() + after;
    for (const JoinWait& wait : deps.waits[n]) {
      if (!wait.previous_pass) of_join[wait.join] = std::max(of_join[wait.join], of_node[n]);
    }
  }
  return of_node;
}

Placement list(const Graph& graph, const Dependencies& deps, const Machine& machine,
               const std::vector<NodeTime>& times) {
  const std::vector<double> priority = time_to_end(deps, machine, times);
  const auto waiters = waiters_of(deps);
  const auto later = [&](uint32_t a, uint32_t b) {
    return priority[a] != priority[b] ? priority[a] < priority[b] : a > b;
  };
  std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(later)> ready(later);
  std::vector<uint32_t> joins_left(deps.waits.size(), 0), nodes_left(deps.joins.size());
  std::vector<double> ready_at(deps.waits.size(), 0), join_at(deps.joins.size(), 0);
  for (uint32_t j = 0; j < deps.joins.size(); ++j) {
    nodes_left[j] = static_cast<uint32_t>(deps.joins[j].size());
    for (const uint32_t n : waiters[j]) ++joins_left[n];
  }
  for (uint32_t n = 0; n < deps.waits.size(); ++n) {
    if (joins_left[n] == 0) ready.push(n);
  }
  Placement out(size_t{graph.num_devices} * machine.sms);
  std::vector<SmClock> clocks(out.size(), SmClock(machine));
  std::vector<Loads> all_loads(graph.num_devices, Loads(machine.sms));
  while (!ready.empty()) {
    const uint32_t n = ready.top();
    ready.pop();
    const uint32_t device = graph.device_of_node(n);
    Loads& loads = all_loads[device];
    const uint32_t sm = home_or(graph, n, machine.sms, [&] { return loads.least(); });
    out[device * machine.sms + sm].push_back(n);
    const double done_us = clocks[device * machine.sms + sm].run(ready_at[n], times[n]);
    loads.set(sm, done_us);
    for (const uint32_t j : deps.signals[n]) {
      join_at[j] = std::max(join_at[j], done_us + machine.synchronise_us);
      if (--nodes_left[j] > 0) continue;
      for (const uint32_t w : waiters[j]) {
        ready_at[w] = std::max(ready_at[w], join_at[j]);
        if (--joins_left[w] == 0) ready.push(w);
      }
    }
  }
  return out;
}

}  // namespace

NodeTime node_time(const Instruction& node, const ProgramShape& shape, std::span<const Tensor> tensors,
                   const Machine& machine, const CostContext& context) {
  const OpInfo& info = op_info(node.opcode);
  const Cost cost = info.cost(node, shape, tensors, context);
  // An instruction without pages cannot read ahead: it reads data from other devices once it has arrived.
  const bool reads_late = cost.pushed_bytes > 0 && info.pages(node).streaming == 0;
  const uint64_t late = reads_late ? cost.cached_bytes : 0;
  const auto memory_us = [&](uint64_t bytes) {
    return static_cast<double>(bytes) * kUsPerGbPerS / stream_gb_per_s(machine);
  };
  const double pushing_us =
      static_cast<double>(cost.pushed_bytes) * kUsPerGbPerS * machine.sms / kLinkGbPerS + memory_us(late);
  return {memory_us(cost.all_bytes() - late),
          machine.instruction_us +
              static_cast<double>(cost.operations) * kUsPerGbPerS / machine.sm_gflop_per_s + pushing_us};
}

std::vector<NodeTime> node_times(const Graph& graph, const Machine& machine, const CostContext& context) {
  std::vector<NodeTime> out;
  out.reserve(graph.nodes.size());
  for (const Instruction& node : graph.nodes)
    out.push_back(node_time(node, graph, graph.tensors, machine, context));
  return out;
}

SmClock::SmClock(const Machine& machine)
    : run_ahead_us_(machine.pages_per_sm * double{kPageBytes} * kUsPerGbPerS / stream_gb_per_s(machine)) {}

double SmClock::run(double ready_us, const NodeTime& time) {
  streamed_us_ = std::max(streamed_us_, free_us_ - run_ahead_us_) + time.memory_us;
  free_us_ = std::max(std::max(free_us_, ready_us) + time.busy_us, streamed_us_);
  return free_us_;
}

Placement place(const Graph& graph, const Dependencies& deps, const Machine& machine, Policy policy,
                const std::vector<NodeTime>& times) {
  switch (policy) {
    case Policy::kRoundRobin:
      return round_robin(graph, machine.sms);
    case Policy::kZigZag:
      return zig_zag(graph, machine.sms);
    case Policy::kWave:
      return wave(graph, machine.sms, times);
    case Policy::kList:
      return list(graph, deps, machine, times);
  }
  return {};
}

double makespan_us(const Dependencies& deps, const Placement& placement, const Machine& machine,
                   const std::vector<NodeTime>& times) {
  std::vector<uint32_t> nodes_left(deps.joins.size());
  std::vector<double> join_at(deps.joins.size(), 0);
  std::vector<SmClock> clocks(placement.size(), SmClock(machine));
  double end_us = 0;
  std::vector<size_t> next(placement.size(), 0);
  std::vector<std::vector<uint32_t>> blocked(deps.joins.size());  // SMs that wait for a join
  for (size_t j = 0; j < deps.joins.size(); ++j) nodes_left[j] = static_cast<uint32_t>(deps.joins[j].size());
  std::vector<uint32_t> runnable(placement.size());
  std::iota(runnable.begin(), runnable.end(), 0U);
  while (!runnable.empty()) {
    const uint32_t sm = runnable.back();
    runnable.pop_back();
    while (next[sm] < placement[sm].size()) {
      const uint32_t n = placement[sm][next[sm]];
      const JoinWait* missing = nullptr;
      double ready_us = 0;
      for (const JoinWait& wait : deps.waits[n]) {
        if (wait.previous_pass) continue;
        if (nodes_left[wait.join] > 0) missing = &wait;
        ready_us = std::max(ready_us, join_at[wait.join]);
      }
      if (missing != nullptr) {
        blocked[missing->join].push_back(sm);
        break;
      }
      const double done_us = clocks[sm].run(ready_us, times[n]);
      end_us = std::max(end_us, done_us);
      ++next[sm];
      for (const uint32_t j : deps.signals[n]) {
        join_at[j] = std::max(join_at[j], done_us + machine.synchronise_us);
        if (--nodes_left[j] > 0) continue;
        runnable.insert(runnable.end(), blocked[j].begin(), blocked[j].end());
        blocked[j].clear();
      }
    }
  }
  return end_us;
}

}  // namespace serval
