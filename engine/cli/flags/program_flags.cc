#include "engine/cli/flags/program_flags.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"

#include "engine/cli/output/log.h"
#include "engine/compile/compile_model.h"
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
}

void ProgramFlags::check(const FlagSet& set) const {
  check_not_compiled(
      set, program_file,
      {"--model", "--ctx-size", "--machine", "--sms", "--gpus", "--policy", "--queue", "--threads"});
}

ValidProgram ProgramFlags::compile(const CostContext& cost) const {
  const std::shared_ptr<const Model> model = find_model(engine.model).model;
  const auto context = static_cast<uint32_t>(context_of(engine, model->max_position));
  ScheduleOptions schedule = schedule_options(engine);
  schedule.pass = cost;
  const auto begin = std::chrono::steady_clock::now();
  ValidProgram program =
      compile_model(*model, machine_of(*this), {.context = context, .ranks = ranks_of(engine)}, schedule);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  log_info(fmt::format("compiled {} instructions in {:.1f} ms", program->instructions.size(), time.count()));
  return program;
}

}  // namespace serval::cli
