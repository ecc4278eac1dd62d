#include "engine/backend/best_policy.h"

#include <algorithm>

#include "profiler/sim/simulate.h"
#include "scheduler/compile.h"

namespace serval {
namespace {

constexpr int kLayersTried = 8;
constexpr uint32_t kPasses = 2;  // the second one begins while the first ends, as every later one does

LlamaConfig shortened(LlamaConfig config) {
  config.num_layers = std::min(config.num_layers, kLayersTried);
  return config;
}

}  // namespace

Policy best_policy(const LlamaConfig& config, const GraphOptions& options, const Machine& machine,
                   const CostContext& pass) {
  const LlamaConfig tried = shortened(config);
  const Graph graph = build_llama_graph(tried, options);
  const uint32_t cached = std::min(pass.context_tokens, options.context - std::min(options.context, kPasses));
  const SimLaunch launch = decode_launch(pass.rows, cached, kPasses);
  Policy best = Policy::kRoundRobin;
  LeastEstimate least;
  for (const Policy policy : kPolicies) {
    const Program program =
        compile(graph, machine, {.policy = policy, .queue_kind = QueueKind::kPerSm, .context = pass});
    if (least.takes(predict_us(program, launch, h200_sim_parameters()))) best = policy;
  }
  return best;
}

}  // namespace serval
