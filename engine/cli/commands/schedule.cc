// serval schedule: compiles a model, or reads a program file, and prints the program's properties. Reads no
// weights.
#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/program_flags.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "instructions/isa.h"
#include "scheduler/report.h"
#include "vm/base/error.h"
#include "vm/state/limits.h"

namespace serval::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kExamples =
    "  serval schedule\n"
    "  serval schedule -m llama-3.2-1b --policy list --json\n"
    "  serval schedule --sms 4 --disassemble | less\n"
    "  serval schedule -m llama-3.1-8b -o 8b.program && serval schedule 8b.program\n";

struct Flags {
  ProgramFlags program;
  std::string output_file;
  bool disassemble = false;
  uint32_t cached_tokens = CostContext{}.context_tokens;
  OutputFlags output;

  void declare(FlagSet& set);
};

void Flags::declare(FlagSet& set) {
  program.declare(set, "print");
  set.group("Pass");
  set.value("--cached-tokens", "N",
            fmt::format("tokens in the KV cache before them, for the estimates. Default: {}", cached_tokens),
            [this](const FlagValue& v) {
              cached_tokens = static_cast<uint32_t>(parse_integer(v, 0, kMaxContext));
            });
  output.declare(set, "print the statistics as one JSON object");
  set.toggle("--disassemble", "print every instruction of every queue instead of statistics", disassemble);
  set.value("-o,--output", "FILE", "write the program to FILE as well",
            [this](const FlagValue& v) { output_file = parse_text(v); });
  set.examples(kExamples);
}

// A file may contain any opcodes and operands; the code after this relies on valid instructions.
Program read_checked(const std::string& file) {
  Program program = read_program(file);
  check_records(program, check_instruction, file);
  return program;
}

std::string statistics_text(const Program& program, const ProgramStatistics& statistics) {
  const std::string ranks = program.num_devices > 1 ? fmt::format("{} ranks of ", program.num_devices) : "";
  std::string out = fmt::format("machine           {}, {}{} SMs, {} queues\n", program.machine.name, ranks,
                                program.machine.sms, name_of(program.queue_kind));
  for (const auto& [key, value] : program.metadata) out += fmt::format("{:<18}{}\n", key, value);
  return out + '\n' + to_text(statistics);
}

ordered_json statistics_json(const Program& program, const ProgramStatistics& statistics) {
  ordered_json out = {{"machine", program.machine.name},
                      {"queue", name_of(program.queue_kind)},
                      {"metadata", program.metadata}};
  out.update(ordered_json::parse(to_json(statistics)));
  return out;
}

void check_combination(const Flags& flags, const FlagSet& set) {
  if (flags.disassemble && flags.output.json) {
    throw Error(ErrorKind::kUsage,
                "--json: prints statistics; not together with --disassemble" + set.see_help());
  }
  flags.program.check(set);
}

int schedule(const Flags& flags) {
  const Program program = flags.program.program_file.empty() ? *flags.program.compile(flags.cached_tokens)
                                                             : read_checked(flags.program.program_file);
  if (!flags.output_file.empty()) write_program(program, flags.output_file);
  if (flags.disassemble) {
    write_stdout(disassemble(program));
    return 0;
  }
  const ProgramStatistics statistics =
      statistics_of(program, {.rows = flags.program.rows, .context_tokens = flags.cached_tokens});
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
