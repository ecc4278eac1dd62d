#include "scheduler/compile.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "scheduler/timing.h"
#include "vm/base/error.h"

namespace serval {
namespace {

struct Placed {
  Policy policy;
  Placement placement;
  double estimate_us;
};

Placed place_best(const Graph& graph, const Dependencies& deps, const Machine& machine,
                  const CompileOptions& options) {
  const std::vector<NodeTime> times = node_times(graph, machine, options.context);
  Placed best{Policy::kRoundRobin, {}, 0};
  LeastEstimate least;
  for (const Policy policy : kPolicies) {
    if (options.policy && *options.policy != policy) continue;
    Placement placement = place(graph, deps, machine, policy, times);
    const double us = makespan_us(deps, placement, machine, times);
    if (least.takes(us)) best = {policy, std::move(placement), us};
  }
  return best;
}

// One queue in serial order: a first-in first-out queue of a topological order cannot deadlock.
Placement serial_order(size_t num_nodes) {
  Placement out(1);
  for (uint32_t n = 0; n < num_nodes; ++n) out[0].push_back(n);
  return out;
}

void emit_counters(const Dependencies& deps, Program& program) {
  for (const Join& join : deps.joins) {
    program.counters.push_back({.increments_per_pass = static_cast<uint32_t>(join.size())});
  }
  const Join last = {static_cast<uint32_t>(deps.needs.size() - 1)};
  const auto gate = std::find(deps.joins.begin(), deps.joins.end(), last);
  program.gate_counter = static_cast<uint32_t>(gate - deps.joins.begin());
}

void emit_node(const Graph& graph, const Dependencies& deps, uint32_t node, Program& program) {
  Instruction instruction = graph.nodes[node];
  instruction.wait_begin = static_cast<uint32_t>(program.waits.size());
  instruction.wait_count = static_cast<uint16_t>(deps.needs[node].size());
  instruction.signal_begin = static_cast<uint32_t>(program.signals.size());
  instruction.signal_count = static_cast<uint16_t>(deps.signals[node].size());
  for (const Need& need : deps.needs[node]) {
    const uint32_t all = static_cast<uint32_t>(deps.joins[need.join].size());
    program.waits.push_back({need.join, need.previous_pass ? 0 : all, need.operand_mask});
  }
  for (const uint32_t join : deps.signals[node]) program.signals.push_back({join, 1});
  program.instructions.push_back(instruction);
}

void emit_queues(const Graph& graph, const Dependencies& deps, const Placement& placement, Program& program) {
  program.instructions.reserve(graph.nodes.size());
  program.queue_begin.push_back(0);
  for (const std::vector<uint32_t>& queue : placement) {
    for (const uint32_t node : queue) emit_node(graph, deps, node, program);
    program.queue_begin.push_back(static_cast<uint32_t>(program.instructions.size()));
  }
}

}  // namespace

Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options) {
  if (machine.sms == 0) throw Error(ErrorKind::kUsage, "sms: 0, expected at least 1");
  if (graph.nodes.empty()) throw Error(ErrorKind::kRuntime, "graph: no instruction");
  Program program;
  program.machine = machine;
  program.queue_kind = options.queue_kind;
  program.limits = graph.limits;
  program.tensors = graph.tensors;
  program.metadata = graph.metadata;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string wrong = check_instruction(program, graph.nodes[n]);
    if (!wrong.empty()) throw Error(ErrorKind::kRuntime, fmt::format("graph: node {}: {}", n, wrong));
  }
  program.metadata["isa"] = isa_fingerprint();
  const Dependencies deps = derive_dependencies(graph);
  emit_counters(deps, program);
  if (options.queue_kind == QueueKind::kGlobal) {
    emit_queues(graph, deps, serial_order(graph.nodes.size()), program);
    program.metadata["policy"] = "global-queue";
    program.metadata["estimate_us"] =
        fmt::format("{:.1f}", time_pass(program, options.context, false).end_us);
    return program;
  }
  const Placed placed = place_best(graph, deps, machine, options);
  emit_queues(graph, deps, placed.placement, program);
  program.metadata["policy"] = name_of(placed.policy);
  program.metadata["estimate_us"] = fmt::format("{:.1f}", placed.estimate_us);
  return program;
}

}  // namespace serval
