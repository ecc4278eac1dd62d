// Graph in, program out.
#pragma once

#include <optional>
#include <stop_token>

#include "scheduler/graph.h"
#include "scheduler/placement.h"
#include "vm/machine.h"
#include "vm/program.h"

namespace serval {

struct CompileOptions {
  std::optional<Policy> policy;  // none: the one whose pass is shortest on the cost model
  QueueKind queue_kind = QueueKind::kPerSm;
  CostContext context;  // the pass that the cost model looks at
};

// Derives dependencies, places the nodes and lays down counters, waits and signals. The program's metadata
// gains "policy", "estimate_us" and "isa". Throws Error(kUsage) if the machine has no SM, Error(kRuntime) if
// the graph is empty, a node's operands do not fit the graph's tensors or it is stopped, which it looks for
// now and then. Deterministic; takes one thread.
Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options,
                const std::stop_token& stop = {});

// What the program will have, but for instructions, queues, counters, and the metadata that compiling adds:
// enough to make memory for it.
Program outline_of(const Graph& graph, const Machine& machine, QueueKind queue_kind);

}  // namespace serval
