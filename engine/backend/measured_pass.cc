#include "engine/backend/measured_pass.h"

#include <fmt/format.h>

#include "models/checkpoint/presets.h"
#include "models/llama/graph.h"
#include "scheduler/compile.h"
#include "vm/error.h"
#include "vm/kv_cache.h"

namespace serval {
namespace {

constexpr uint32_t kPasses = 2;  // the second one begins while the first ends, as every later one does

LlamaConfig preset(const std::string& name) {
  std::optional<LlamaConfig> config = find_preset(name);
  if (!config) throw Error(ErrorKind::kRuntime, fmt::format("measured: there is no preset '{}'", name));
  return *std::move(config);
}

Policy policy(const std::string& name) {
  const std::optional<Policy> found = policy_named(name);
  if (!found) throw Error(ErrorKind::kRuntime, fmt::format("measured: there is no policy '{}'", name));
  return *found;
}

}  // namespace

MeasuredPass measured_pass(const MeasuredToken& token) {
  const Machine machine = h200_machine();
  const uint32_t context = token.context + kPasses;
  const Graph graph = build_llama_graph(
      preset(token.model),
      {.sms = machine.sms, .context = context, .kv_blocks = token.sequences * blocks_for_tokens(context)});
  return {
      .name = fmt::format("{}, {}, {} x {}{}", token.model, token.policy, token.sequences, token.context,
                          token.what_ifs.empty() ? "" : ", in parts"),
      .program = compile(graph, machine,
                         {.policy = policy(token.policy), .queue_kind = QueueKind::kPerSm, .context = {}}),
      .launch = decode_launch(token.sequences, token.context, kPasses),
      .us = token.us,
      .what_ifs = token.what_ifs};
}

}  // namespace serval
