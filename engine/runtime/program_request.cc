#include "engine/runtime/program_request.h"

#include <algorithm>
#include <thread>

#include "fmt/format.h"

#include "engine/compile/gpu_programs.h"
#include "engine/runtime/options.h"
#include "vm/base/error.h"

namespace serval {

Machine machine_of(const EngineOptions& options, TargetMachine target) {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t threads = options.threads == 0 ? cores : static_cast<uint32_t>(options.threads);
  Machine machine = target == TargetMachine::kHost ? host_machine(threads) : h200_machine();
  if (options.sms != 0) machine.sms = static_cast<uint32_t>(options.sms);
  return machine;
}

ValidProgram compile_program(const Model& model, const EngineOptions& options,
                             const ProgramRequest& request) {
  ScheduleOptions schedule = schedule_options(options);
  schedule.pass = {.rows = request.rows, .context_tokens = request.cached_tokens};
  const Machine machine = machine_of(options, request.machine);
  ProgramLimits limits = backend_options(options, context_of(options, model.max_position)).limits;
  if (request.machine == TargetMachine::kHost) {
    limits.rows = std::max(limits.pass_rows(), request.rows);
    return compile_model(model, machine, limits, schedule);
  }
  if (limits.rows > 0 && request.rows > limits.rows) {
    throw Error(ErrorKind::kUsage,
                fmt::format("rows: {}; limit: {} (max_batch_tokens)", request.rows, limits.rows));
  }
  if (limits.rows == 0 && (request.rows > kDefaultRows || limits.batch_invariant))
    limits.rows = std::max(request.rows, kLeastGpuTokens);
  return compile_gpu_program(model, machine, limits, schedule, request.rows, false);
}

}  // namespace serval
