// Compiles a graph to a program.
#pragma once

#include <optional>
#include <stop_token>

#include "scheduler/graph.h"
#include "scheduler/placement.h"
#include "vm/machine.h"
#include "vm/program.h"

namespace serval {

struct CompileOptions {
  std::optional<Policy> policy;  // none: the policy with the shortest pass on the cost model
  QueueKind queue_kind = QueueKind::kPerSm;
  CostContext context;  // the pass that the cost model assumes
};

// Derives dependencies, places the nodes, and adds counters, waits and signals. Adds "policy", "estimate_us"
// and "isa" to the metadata. Throws Error(kUsage) if the machine has no SM, or if several devices are to have
// a global queue; Error(kRuntime) if the graph is empty, if a node's operands do not fit the graph's tensors,
// or if `stop` is requested, which it checks between its steps. Deterministic; uses one thread.
Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options,
                const std::stop_token& stop = {});

// The program without instructions, queues, counters and the metadata that compile() adds: enough to allocate
// memory for it.
Program outline_of(const Graph& graph, const Machine& machine, QueueKind queue_kind);

}  // namespace serval
