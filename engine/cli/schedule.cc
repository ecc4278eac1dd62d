// serval schedule: compiles a model, or reads a program file, and prints what the program is. No weights are
// touched.
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands.h"
#include "engine/cli/common_options.h"
#include "engine/cli/json_text.h"
#include "engine/cli/log.h"
#include "engine/cli/output.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "instructions/isa.h"
#include "models/llama/graph.h"
#include "scheduler/compile.h"
#include "scheduler/report.h"
#include "vm/error.h"
#include "vm/state.h"

namespace serval::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kExamples =
    "  serval schedule\n"
    "  serval schedule -m llama-3.2-1b --policy list --json\n"
    "  serval schedule --sms 4 --disassemble | less\n"
    "  serval schedule -m llama-3.1-8b -o 8b.program && serval schedule 8b.program\n";

// What says how to compile, and so has no meaning for a program that is compiled.
constexpr const char* kCompileFlags[] = {"--model",  "--ctx-size", "--machine", "--sms",
                                         "--policy", "--queue",    "--threads"};

struct Flags {
  std::string program_file;
  std::string model;
  std::string output_file;
  std::string machine = "h200";
  int context = 0;
  int threads = 0;
  bool disassemble = false;
  CostContext cost;
  ScheduleFlags schedule;
  OutputFlags output;

  void declare(FlagSet& set);
};

void Flags::declare(FlagSet& set) {
  set.positional("PROGRAM", "a program file to print, instead of compiling a model",
                 [this](const FlagValue& v) { program_file = parse_text(v); });
  set.group("Model");
  set.value("-m,--model", "MODEL", "a Hugging Face directory or a preset's name. Default: the bundled model",
            [this](const FlagValue& v) { model = parse_text(v); });
  declare_context(set, context);
  schedule.declare(set);
  set.value("--machine", "NAME", "what to compile for: h200, host. Default: h200",
            [this](const FlagValue& v) {
              machine = parse_choice(v, {"h200", "host"});
            });
  set.value("--threads", "N", "of the machine host; 0: all cores. Default: 0",
            [this](const FlagValue& v) { threads = static_cast<int>(parse_integer(v, 0, kMaxThreads)); });
  set.group("Cost model: the pass that is looked at");
  set.value("--rows", "N", fmt::format("tokens computed together, 1 to {}. Default: 1", kMaxRows),
            [this](const FlagValue& v) { cost.rows = static_cast<uint32_t>(parse_integer(v, 1, kMaxRows)); });
  set.value("--cached-tokens", "N", "tokens in the KV cache before them. Default: 128",
            [this](const FlagValue& v) {
              cost.context_tokens = static_cast<uint32_t>(parse_integer(v, 0, kMaxContext));
            });
  output.declare(set, "print the statistics as one JSON object");
  set.toggle("--disassemble", "print every instruction of every queue instead of statistics", disassemble);
  set.value("-o,--output", "FILE", "write the program to FILE as well",
            [this](const FlagValue& v) { output_file = parse_text(v); });
  set.examples(kExamples);
}

Machine machine_of(const Flags& flags) {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t threads = flags.threads == 0 ? cores : static_cast<uint32_t>(flags.threads);
  Machine machine = flags.machine == "host" ? host_machine(threads) : h200_machine();
  if (flags.schedule.sms != 0) machine.sms = static_cast<uint32_t>(flags.schedule.sms);
  return machine;
}

Program compile_model(const Flags& flags) {
  const LlamaConfig config = find_model(flags.model).config;
  const Machine machine = machine_of(flags);
  EngineOptions options;
  options.context = flags.context;
  const auto context = static_cast<uint32_t>(context_of(options, config.max_position));

  const auto begin = std::chrono::steady_clock::now();
  const Graph graph = build_llama_graph(config, {.sms = machine.sms, .context = context});
  const Program program =
      compile(graph, machine,
              {.policy = policy_named(flags.schedule.policy),
               .queue_kind = flags.schedule.global_queue ? QueueKind::kGlobal : QueueKind::kPerSm,
               .context = flags.cost});
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  log_info(fmt::format("compiled {} instructions in {:.1f} ms", program.instructions.size(), time.count()));
  return program;
}

// A file may hold any opcodes and operands; what follows relies on the instruction set's own.
Program read_checked(const std::string& file) {
  Program program = read_program(file);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const std::string wrong = check_instruction(program, program.instructions[i]);
    if (wrong.empty()) continue;
    throw Error(ErrorKind::kRuntime, fmt::format("{}: instruction {}: {}", file, i, wrong));
  }
  return program;
}

const char* queue_name(const Program& program) {
  return program.queue_kind == QueueKind::kGlobal ? "global" : "per-sm";
}

std::string statistics_text(const Program& program, const ProgramStatistics& statistics) {
  std::string out = fmt::format("machine           {}, {} SMs, {} queues\n", program.machine.name,
                                program.machine.sms, queue_name(program));
  for (const auto& [key, value] : program.metadata) out += fmt::format("{:<18}{}\n", key, value);
  return out + '\n' + to_text(statistics);
}

ordered_json statistics_json(const Program& program, const ProgramStatistics& statistics) {
  ordered_json out = {
      {"machine", program.machine.name}, {"queue", queue_name(program)}, {"metadata", program.metadata}};
  out.update(ordered_json::parse(to_json(statistics)));
  return out;
}

void check_combination(const Flags& flags, const FlagSet& set) {
  if (flags.disassemble && flags.output.json) {
    throw Error(ErrorKind::kUsage,
                "--json: is of the statistics, not with --disassemble; see serval schedule --help");
  }
  if (flags.program_file.empty()) return;
  for (const char* flag : kCompileFlags) {
    if (!set.given(flag)) continue;
    throw Error(ErrorKind::kUsage, fmt::format("{}: {} is compiled already; see serval schedule --help", flag,
                                               flags.program_file));
  }
}

int schedule(const Flags& flags) {
  const Program program =
      flags.program_file.empty() ? compile_model(flags) : read_checked(flags.program_file);
  if (!flags.output_file.empty()) write_program(program, flags.output_file);
  if (flags.disassemble) {
    write_stdout(disassemble(program));
    return 0;
  }
  const ProgramStatistics statistics = statistics_of(program, flags.cost);
  write_stdout(flags.output.json ? pretty(statistics_json(program, statistics))
                                 : statistics_text(program, statistics));
  return 0;
}

}  // namespace

int run_schedule(const Arguments& arguments) {
  Flags flags;
  FlagSet set("schedule", "Compiles a model and prints the program's statistics or its instructions.",
              "[PROGRAM] [FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  check_combination(flags, set);
  return schedule(flags);
}

}  // namespace serval::cli
