#include "engine/compile/best_policy.h"

#include <algorithm>
#include <memory>

#include "profiler/sim/simulate.h"

namespace serval {
namespace {

constexpr int kLayersTried = 8;
constexpr uint32_t kPasses = 2;  // the second begins while the first ends, like every later one

}  // namespace

Policy best_policy(const Model& model, const Machine& machine, const ProgramLimits& limits,
                   const ScheduleOptions& schedule) {
  const std::unique_ptr<const Model> tried = model.shortened(kLayersTried);
  const CostContext& pass = schedule.pass;
  const uint32_t cached = std::min(pass.context_tokens, limits.context - std::min(limits.context, kPasses));
  // A pass with more rows than sequences reads a prompt.
  const SimLaunch launch = pass.rows <= limits.slots()
                               ? decode_launch(pass.rows, cached, kPasses)
                               : prompt_launch(std::min(pass.rows, limits.context), 0);
  Policy best = Policy::kRoundRobin;
  LeastEstimate least;
  for (const Policy policy : kPolicies) {
    const ValidProgram program = compile_model(*tried, machine, limits, {.policy = policy, .pass = pass});
    if (least.accepts(predict_us(*program, launch, h200_sim_parameters()))) best = policy;
  }
  return best;
}

}  // namespace serval
