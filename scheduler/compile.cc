#include "scheduler/compile.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "scheduler/periodic_dependencies.h"
#include "scheduler/timing.h"
#include "vm/base/error.h"

namespace serval {
namespace {

struct Placed {
  Policy policy;
  Placement placement;
  double estimate_us;
};

void throw_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorKind::kRuntime, "program: its compilation was stopped");
}

Placed place_best(const Graph& graph, const Dependencies& deps, const Machine& machine,
                  const CompileOptions& options, const std::stop_token& stop) {
  const std::vector<NodeTime> times = node_times(graph, machine, options.context);
  Placed best{Policy::kRoundRobin, {}, 0};
  LeastEstimate least;
  for (const Policy policy : kPolicies) {
    if (options.policy && *options.policy != policy) continue;
    throw_if_stopped(stop);
    Placement placement = place(graph, deps, machine, policy, times);
    const double us = makespan_us(deps, placement, machine, times);
    if (least.accepts(us)) best = {policy, std::move(placement), us};
  }
  return best;
}

// One queue in serial order. It cannot deadlock: instructions come after those that they wait for.
Placement serial_order(size_t num_nodes) {
  Placement out(1);
  for (uint32_t n = 0; n < num_nodes; ++n) out[0].push_back(n);
  return out;
}

// The counters of each join: one on each device that waits for it.
class JoinCounters {
 public:
  JoinCounters(const Graph& graph, const Dependencies& deps);
  const std::vector<uint32_t>& of(uint32_t join) const { return of_join_[join]; }
  uint32_t on(uint32_t join, uint32_t device) const;
  const std::vector<Counter>& counters() const { return counters_; }

 private:
  std::vector<std::vector<uint32_t>> of_join_;  // by device
  std::vector<Counter> counters_;
};

// For each join, a bit mask of the devices that wait for it. All devices wait for the gate.
std::vector<uint32_t> waiting_devices(const Graph& graph, const Dependencies& deps) {
  std::vector<uint32_t> out(deps.joins.size(), graph.num_devices == 1 ? 1 : 0);
  if (graph.num_devices == 1) return out;
  for (uint32_t n = 0; n < deps.waits.size(); ++n) {
    for (const JoinWait& wait : deps.waits[n]) out[wait.join] |= 1U << graph.device_of_node(n);
  }
  out[deps.gate] = (1U << graph.num_devices) - 1;
  return out;
}

// True if the node writes memory of another device.
bool pushes(const Graph& graph, uint32_t node, Footprint& footprint) {
  const uint32_t device = graph.device_of_node(node);
  footprint.clear();
  op_info(graph.nodes[node].opcode).footprint(graph.nodes[node], graph, nullptr, footprint);
  return std::ranges::any_of(footprint,
                             [&](const Region& r) { return graph.tensors[r.tensor.index].device != device; });
}

JoinCounters::JoinCounters(const Graph& graph, const Dependencies& deps) : of_join_(deps.joins.size()) {
  const std::vector<uint32_t> waiting = waiting_devices(graph, deps);
  for (size_t j = 0; j < deps.joins.size(); ++j) {
    for (uint32_t device = 0; device < graph.num_devices; ++device) {
      if ((waiting[j] >> device & 1) == 0) continue;
      of_join_[j].push_back(static_cast<uint32_t>(counters_.size()));
      counters_.push_back({.increments_per_pass = static_cast<uint32_t>(deps.joins[j].size()),
                           .device = static_cast<uint8_t>(device)});
    }
  }
  Footprint footprint;
  for (uint32_t n = 0; graph.num_devices > 1 && n < graph.nodes.size(); ++n) {
    const bool to_all = pushes(graph, n, footprint);
    const uint32_t device = graph.device_of_node(n);
    for (const uint32_t join : deps.signals[n]) {
      for (const uint32_t c : of_join_[join]) {
        if (to_all || counters_[c].device != device) counters_[c].scope = CounterScope::kSystem;
      }
    }
  }
}

uint32_t JoinCounters::on(uint32_t join, uint32_t device) const {
  return *std::ranges::find(of_join_[join], device, [&](uint32_t c) { return counters_[c].device; });
}

void emit_node(const Graph& graph, const Dependencies& deps, const JoinCounters& counters, uint32_t node,
               Program& program) {
  Instruction instruction = graph.nodes[node];
  instruction.wait_begin = static_cast<uint32_t>(program.waits.size());
  instruction.wait_count = static_cast<uint16_t>(deps.waits[node].size());
  instruction.signal_begin = static_cast<uint32_t>(program.signals.size());
  for (const JoinWait& wait : deps.waits[node]) {
    const uint32_t all = static_cast<uint32_t>(deps.joins[wait.join].size());
    program.waits.push_back({counters.on(wait.join, graph.device_of_node(node)), wait.previous_pass ? 0 : all,
                             wait.operand_mask});
  }
  for (const uint32_t join : deps.signals[node]) {
    for (const uint32_t counter : counters.of(join)) program.signals.push_back({counter, 1});
  }
  instruction.signal_count = static_cast<uint16_t>(program.signals.size() - instruction.signal_begin);
  program.instructions.push_back(instruction);
}

void emit_queues(const Graph& graph, const Dependencies& deps, const Placement& placement, Program& program) {
  const JoinCounters counters(graph, deps);
  program.counters = counters.counters();
  program.gate_counter = counters.of(deps.gate).front();
  program.instructions.reserve(graph.nodes.size());
  program.queue_begin.push_back(0);
  for (const std::vector<uint32_t>& queue : placement) {
    for (const uint32_t node : queue) emit_node(graph, deps, counters, node, program);
    program.queue_begin.push_back(static_cast<uint32_t>(program.instructions.size()));
  }
}

}  // namespace

Program outline_of(const Graph& graph, const Machine& machine, QueueKind queue_kind) {
  Program program;
  static_cast<ProgramShape&>(program) = graph;
  program.machine = machine;
  program.queue_kind = queue_kind;
  program.num_devices = graph.num_devices;
  program.tensors = graph.tensors;
  program.metadata = graph.metadata;
  return program;
}

Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options,
                const std::stop_token& stop) {
  if (machine.sms == 0) throw Error(ErrorKind::kUsage, "sms: 0, expected at least 1");
  if (graph.nodes.empty()) throw Error(ErrorKind::kRuntime, "graph: no instruction");
  if (graph.num_devices > 1 && options.queue_kind == QueueKind::kGlobal)
    throw Error(ErrorKind::kUsage, "queue: global has one queue for all SMs; several GPUs need per-sm");
  Program program = outline_of(graph, machine, options.queue_kind);
  check_shape(program);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string wrong = check_instruction(program, graph.nodes[n]);
    if (!wrong.empty()) throw Error(ErrorKind::kRuntime, fmt::format("graph: node {}: {}", n, wrong));
  }
  program.metadata["isa"] = isa_fingerprint();
  const Dependencies deps = derive_periodic_dependencies(graph);
  if (options.queue_kind == QueueKind::kGlobal) {
    emit_queues(graph, deps, serial_order(graph.nodes.size()), program);
    program.metadata["policy"] = "global-queue";
    program.metadata["estimate_us"] =
        fmt::format("{:.1f}", time_pass(program, options.context, false).end_us);
    return program;
  }
  const Placed placed = place_best(graph, deps, machine, options, stop);
  throw_if_stopped(stop);
  emit_queues(graph, deps, placed.placement, program);
  throw_if_stopped(stop);
  program.metadata["policy"] = name_of(placed.policy);
  program.metadata["estimate_us"] = fmt::format("{:.1f}", placed.estimate_us);
  return program;
}

}  // namespace serval
