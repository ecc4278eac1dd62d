// Which SM runs which node, and in what order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "instructions/common/cost.h"
#include "scheduler/dependencies.h"
#include "scheduler/graph.h"
#include "vm/base/enum_names.h"
#include "vm/machine.h"

namespace serval {

enum class Policy : uint8_t {
  kRoundRobin,  // node i runs on SM i mod SMs
  kZigZag,      // like round-robin, but every second lap runs backwards
  kWave,        // stage by stage, largest nodes first, each on the least loaded SM
  kList,        // list scheduling by critical path on the cost model
};
template <>
struct EnumNames<Policy> {
  static constexpr EnumName<Policy> kTable[] = {{Policy::kRoundRobin, "round-robin"},
                                                {Policy::kZigZag, "zig-zag"},
                                                {Policy::kWave, "wave"},
                                                {Policy::kList, "list"}};
};
inline constexpr auto kPolicies = enumerators<Policy>();

// Finds the best of kPolicies from estimates of a pass's time. Among estimates that hardly differ it takes
// the last policy: list, which the GPU runs a little faster.
class LeastEstimate {
 public:
  // Returns true if the next policy, whose pass takes `us`, is the best so far.
  bool accepts(double us) {
    constexpr double kMinDifference = 1e-3;  // relative
    if (us > least_us_ * (1 + kMinDifference)) return false;
    least_us_ = std::min(least_us_, us);
    return true;
  }

 private:
  double least_us_ = std::numeric_limits<double>::infinity();
};

// For each SM, its nodes in the order in which it runs them.
using Placement = std::vector<std::vector<uint32_t>>;

// Time that a node takes on its SM while all SMs share the memory's bandwidth. Streaming may run ahead of the
// rest, because weights need no wait.
struct NodeTime {
  double memory_us;  // streaming its bytes
  double busy_us;    // everything else
  double total_us() const { return memory_us + busy_us; }
};
NodeTime node_time(const Instruction& node, const ProgramShape& shape, std::span<const Tensor> tensors,
                   const Machine& machine, const CostContext& context);
std::vector<NodeTime> node_times(const Graph& graph, const Machine& machine, const CostContext& context);

// Clock of one SM on the cost model. It streams bytes ahead of the current instruction, at most as many as
// its pages hold.
class SmClock {
 public:
  explicit SmClock(const Machine& machine);
  // Runs a node whose inputs are complete at `ready_us`; returns its end.
  double run(double ready_us, const NodeTime& time);
  double free_us() const { return free_us_; }

 private:
  double run_ahead_us_;  // time to stream all of its pages once
  double streamed_us_ = 0;
  double free_us_ = 0;
};

// SMs are numbered device by device, machine.sms on each; a node runs on an SM of its device. No placement
// can deadlock, because every queue lists its nodes in the order of one serial run of the graph.
Placement place(const Graph& graph, const Dependencies& deps, const Machine& machine, Policy policy,
                const std::vector<NodeTime>& times);

// Microseconds of a pass on the cost model: SMs run their queues in order, a join costs one synchronisation.
double makespan_us(const Dependencies& deps, const Placement& placement, const Machine& machine,
                   const std::vector<NodeTime>& times);

}  // namespace serval
