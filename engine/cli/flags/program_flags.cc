#include "engine/cli/flags/program_flags.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"

#include "engine/cli/output/log.h"
#include "engine/compile/compile_model.h"
#include "engine/compile/gpu_programs.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr const char* kHostMachine = "host";

Machine machine_of(const ProgramFlags& flags) {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t threads = flags.engine.threads == 0 ? cores : static_cast<uint32_t>(flags.engine.threads);
  Machine machine = flags.machine == kHostMachine ? host_machine(threads) : h200_machine();
  if (flags.engine.sms != 0) machine.sms = static_cast<uint32_t>(flags.engine.sms);
  return machine;
}

// Compiles the program that a GPU runs for passes of `flags.rows` rows, among the programs for the passes
// that `engine` allows. The host's threads have a single program for all passes.
ValidProgram compile_for_rows(const Model& model, const ProgramFlags& flags,
                              const ScheduleOptions& schedule) {
  const EngineOptions& engine = flags.engine;
  const Machine machine = machine_of(flags);
  ProgramLimits limits = backend_options(engine, context_of(engine, model.max_position)).limits;
  if (flags.machine == kHostMachine) {
    limits.rows = std::max(limits.pass_rows(), flags.rows);
    return compile_model(model, machine, limits, schedule);
  }
  if (limits.rows > 0 && flags.rows > limits.rows) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--rows: {}; limit: {} (--max-batch-tokens)", flags.rows, limits.rows));
  }
  if (limits.rows == 0 && (flags.rows > kDefaultRows || limits.batch_invariant))
    limits.rows = std::max(flags.rows, kLeastGpuTokens);
  return compile_gpu_program(model, machine, limits, schedule, flags.rows, false);
}

}  // namespace

void ProgramFlags::declare(FlagSet& set, const std::string& purpose) {
  set.positional("PROGRAM", fmt::format("a program file to {}, instead of compiling a model", purpose),
                 [this](const FlagValue& v) { program_file = parse_text(v); });
  declare_model_name(set, engine.model);
  declare_context(set, engine);
  declare_schedule(set, engine);
  set.value("--machine", "NAME", "what to compile for: h200, host. Default: h200",
            [this](const FlagValue& v) {
              machine = parse_choice(v, {"h200", kHostMachine});
            });
  declare_threads(set, engine, "the machine host");
  set.group("Pass");
  set.value("--rows", "N",
            fmt::format("tokens computed together, 1 to {}: the program is the one that runs such passes. "
                        "Default: {}",
                        OptionLimits::kMaxBatchTokens, rows),
            [this](const FlagValue& v) {
              rows = static_cast<uint32_t>(parse_integer(v, 1, OptionLimits::kMaxBatchTokens));
            });
  declare_max_sequences(set, engine);
  declare_batch_tokens(set, engine);
}

void ProgramFlags::check(const FlagSet& set, ModelOfFile model_of_file) const {
  if (model_of_file == ModelOfFile::kNone) check_not_compiled(set, program_file, {"--model"});
  check_not_compiled(set, program_file,
                     {"--ctx-size", "--machine", "--sms", "--gpus", "--policy", "--queue", "--threads",
                      "--max-sequences", "--max-batch-tokens", "--batch-invariant"});
}

ValidProgram ProgramFlags::compile(uint32_t cached_tokens) const {
  const std::shared_ptr<const Model> model = find_model(engine.model).model;
  ScheduleOptions schedule = schedule_options(engine);
  schedule.pass = {.rows = rows, .context_tokens = cached_tokens};
  const auto begin = std::chrono::steady_clock::now();
  ValidProgram program = compile_for_rows(*model, *this, schedule);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  log_info(fmt::format("compiled {} instructions in {:.1f} ms", program->instructions.size(), time.count()));
  return program;
}

}  // namespace serval::cli
