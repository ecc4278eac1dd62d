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
  kZigZag,      // the same, back and forth
  kWave,        // each stage is dealt out, largest first, to the least loaded SMs before the next
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

// Which of kPolicies is best, by estimates of what a pass takes. Those that the estimates do not tell apart
// are as good, and the last of them is taken: list, which the GPU runs a little faster.
class LeastEstimate {
 public:
  // Whether the policy that takes `us`, the next one, is the best so far.
  bool accepts(double us) {
    constexpr double kMinDifference = 1e-3;  // of an estimate
    if (us > least_us_ * (1 + kMinDifference)) return false;
    least_us_ = std::min(least_us_, us);
    return true;
  }

 private:
  double least_us_ = std::numeric_limits<double>::infinity();
};

// Nodes of each SM in the order in which it runs them.
using Placement = std::vector<std::vector<uint32_t>>;

// What a node costs its SM, all SMs sharing the memory. Loading may run ahead of computing: weights need no
// wait.
struct NodeTime {
  double memory_us;  // streaming its bytes
  double busy_us;    // everything else
  double total_us() const { return memory_us + busy_us; }
};
NodeTime node_time(const Instruction& node, std::span<const Tensor> tensors, const Machine& machine,
                   const CostContext& context);
std::vector<NodeTime> node_times(const Graph& graph, const Machine& machine, const CostContext& context);

// One SM on the cost model: a stream of bytes that is never more than its pages ahead of the instruction in
// hand.
class SmClock {
 public:
  explicit SmClock(const Machine& machine);
  // Runs a node whose inputs are there at `ready_us`; returns when it ends.
  double run(double ready_us, const NodeTime& time);
  double free_us() const { return free_us_; }

 private:
  double run_ahead_us_;  // what streaming a full set of pages takes
  double streamed_us_ = 0;
  double free_us_ = 0;
};

// The SMs of a device follow on those of the one before, machine.sms each; a node runs on an SM of its own.
// Each queue lists its nodes in the order in which one serial run of the whole graph visits them: no
// placement can deadlock.
Placement place(const Graph& graph, const Dependencies& deps, const Machine& machine, Policy policy,
                const std::vector<NodeTime>& times);

// Microseconds of a pass on the cost model: SMs run their queues in order, a join costs one synchronisation.
double makespan_us(const Dependencies& deps, const Placement& placement, const Machine& machine,
                   const std::vector<NodeTime>& times);

}  // namespace serval
