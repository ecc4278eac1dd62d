#include "engine/compile/measured_pass.h"

#include <algorithm>
#include <fmt/format.h>

#include "engine/compile/gpu_programs.h"
#include "models/presets.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr uint32_t kPasses = 2;  // the second begins while the first ends, like every later one

std::shared_ptr<const Model> preset(const std::string& name) {
  std::shared_ptr<const Model> model = find_preset(name);
  if (!model) throw Error(ErrorKind::kRuntime, fmt::format("measured: there is no preset '{}'", name));
  return model;
}

Policy policy(const std::string& name) {
  const std::optional<Policy> found = enumerator_named<Policy>(name);
  if (!found) throw Error(ErrorKind::kRuntime, fmt::format("measured: there is no policy '{}'", name));
  return *found;
}

}  // namespace

MeasuredPass measured_pass(const MeasuredToken& token) {
  const uint32_t rows = std::max(token.sequences, token.prompt);
  const ProgramLimits limits{.context = token.context + std::max(token.prompt, kPasses),
                             .sequences = token.sequences,
                             .rows = kLeastGpuTokens,
                             .ranks = token.gpus};
  const ValidProgram program = compile_gpu_program(*preset(token.model), h200_machine(), limits,
                                                   {.policy = policy(token.policy)}, rows, token.prompt > 0);
  const std::string prompt = token.prompt > 0 ? fmt::format(" + {}", token.prompt) : "";
  return {.name = fmt::format("{}, {}, {} x {}{}{}", token.model, token.policy, token.sequences,
                              token.context, prompt, token.what_ifs.empty() ? "" : ", in parts"),
          .program = *program,
          .launch = token.prompt > 0 ? prompt_launch(token.prompt, token.context)
                                     : decode_launch(token.sequences, token.context, kPasses),
          .us = token.us,
          .what_ifs = token.what_ifs};
}

}  // namespace serval
