#include "engine/cli/program_flags.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"

#include "engine/backend/best_policy.h"
#include "engine/cli/log.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "models/llama/graph.h"
#include "scheduler/compile.h"
#include "vm/error.h"

namespace serval::cli {
namespace {

constexpr const char* kHostMachine = "host";

// What says how to compile, and so has no meaning for a program that is compiled.
constexpr const char* kCompileFlags[] = {"--model",  "--ctx-size", "--machine", "--sms",
                                         "--policy", "--queue",    "--threads"};

Machine machine_of(const ProgramFlags& flags) {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t threads = flags.threads == 0 ? cores : static_cast<uint32_t>(flags.threads);
  Machine machine = flags.machine == kHostMachine ? host_machine(threads) : h200_machine();
  if (flags.schedule.sms != 0) machine.sms = static_cast<uint32_t>(flags.schedule.sms);
  return machine;
}

}  // namespace

void ProgramFlags::declare(FlagSet& set, const std::string& purpose) {
  set.positional("PROGRAM", fmt::format("a program file to {}, instead of compiling a model", purpose),
                 [this](const FlagValue& v) { program_file = parse_text(v); });
  set.group("Model");
  set.value("-m,--model", "MODEL", "a Hugging Face directory or a preset's name. Default: the bundled model",
            [this](const FlagValue& v) { model = parse_text(v); });
  declare_context(set, context);
  schedule.declare(set);
  set.value("--machine", "NAME", "what to compile for: h200, host. Default: h200",
            [this](const FlagValue& v) {
              machine = parse_choice(v, {"h200", kHostMachine});
            });
  set.value("--threads", "N", "of the machine host; 0: all cores. Default: 0",
            [this](const FlagValue& v) { threads = static_cast<int>(parse_integer(v, 0, kMaxThreads)); });
}

void ProgramFlags::check(const FlagSet& set) const {
  if (program_file.empty()) return;
  for (const char* flag : kCompileFlags) {
    if (!set.given(flag)) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: {} is compiled already{}", flag, program_file, set.see_help()));
  }
}

Program ProgramFlags::compile_model(const CostContext& cost) const {
  const LlamaConfig config = find_model(model).config;
  const Machine target = machine_of(*this);
  EngineOptions options;
  options.context = context;
  const auto tokens = static_cast<uint32_t>(context_of(options, config.max_position));

  const auto begin = std::chrono::steady_clock::now();
  const GraphOptions graph_options{.sms = target.sms, .context = tokens};
  const Graph graph = build_llama_graph(config, graph_options);
  // The simulator is one of a GPU.
  const bool best = schedule.policy == kBestPolicy && machine != kHostMachine;
  Program program = compile(
      graph, target,
      {.policy = best ? best_policy(config, graph_options, target, cost) : policy_named(schedule.policy),
       .queue_kind = schedule.global_queue ? QueueKind::kGlobal : QueueKind::kPerSm,
       .context = cost});
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  log_info(fmt::format("compiled {} instructions in {:.1f} ms", program.instructions.size(), time.count()));
  return program;
}

}  // namespace serval::cli
