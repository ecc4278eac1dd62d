// Which SM runs which node, and in what order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "instructions/common/cost.h"
#include "scheduler/dependencies.h"
#include "scheduler/graph.h"
#include "vm/machine.h"

namespace serval {

enum class Policy : uint8_t {
  kRoundRobin,  // node i runs on SM i mod SMs
  kZigZag,      // the same, back and forth
  kWave,        // each stage is dealt out, largest first, to the least loaded SMs before the next
  kList,        // list scheduling by critical path on the cost model
};
inline constexpr Policy kPolicies[] = {Policy::kRoundRobin, Policy::kZigZag, Policy::kWave, Policy::kList};
const char* name_of(Policy policy);
std::optional<Policy> policy_named(std::string_view name);

// Nodes of each SM in the order in which it runs them.
using Placement = std::vector<std::vector<uint32_t>>;

// Microseconds that a node occupies its SM, all SMs sharing the memory.
double node_time_us(const Instruction& node, const Machine& machine, const CostContext& context);
std::vector<double> node_times_us(const Graph& graph, const Machine& machine, const CostContext& context);

// Every queue is in an order that, merged by the nodes' readiness, is a serial order: no placement can
// deadlock.
Placement place(const Graph& graph, const Dependencies& deps, const Machine& machine, Policy policy,
                const std::vector<double>& times_us);

// The time of a pass on the cost model: SMs run their queues in order, a join costs one synchronisation.
double makespan_us(const Dependencies& deps, const Placement& placement, const Machine& machine,
                   const std::vector<double>& times_us);

}  // namespace serval
