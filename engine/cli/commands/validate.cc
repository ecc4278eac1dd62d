// serval validate: proves that a program may run, or reports why not with exit code 1.
#include "scheduler/validate.h"

#include <chrono>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/program_flags.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"

namespace serval::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kExamples =
    "  serval validate\n"
    "  serval validate -m llama-3.1-70b --policy list\n"
    "  serval schedule -m llama-3.1-8b -o 8b.program && serval validate 8b.program --explain\n";

constexpr int kInvalid = 1;

struct Flags {
  ProgramFlags program;
  OutputFlags output;
  bool explain = false;

  void declare(FlagSet& set);
};

void Flags::declare(FlagSet& set) {
  program.declare(set, "look at");
  output.declare(set, "print one JSON object");
  set.toggle("--explain", "also print the instructions and waits concerned, and the missing order", explain);
  set.examples(kExamples);
}

struct Verdict {
  std::optional<Violation> violation;
  double ms;
};

Verdict judge(const Program& program) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Violation> violation = validate(program);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return {std::move(violation), time.count()};
}

std::string verdict_text(const Program& program, const Verdict& verdict, bool explain) {
  if (!verdict.violation) {
    return fmt::format("valid: {} instructions, {} counters ({:.1f} ms)\n", program.instructions.size(),
                       program.counters.size(), verdict.ms);
  }
  return fmt::format("invalid: {}\n{}", verdict.violation->message,
                     explain ? verdict.violation->explanation : "");
}

ordered_json verdict_json(const Program& program, const Verdict& verdict) {
  ordered_json out = {{"valid", !verdict.violation},
                      {"instructions", program.instructions.size()},
                      {"counters", program.counters.size()},
                      {"validate_ms", verdict.ms}};
  if (verdict.violation) {
    const Violation& v = *verdict.violation;
    out["violation"] = {{"rule", name_of(v.rule)},
                        {"message", v.message},
                        {"instructions", v.instructions},
                        {"explanation", v.explanation}};
  }
  return out;
}

}  // namespace

int run_validate(const Arguments& arguments) {
  Flags flags;
  FlagSet set("validate", "Proves that a program may run: in any state, with any timing of SMs and memory.",
              "[PROGRAM] [FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  flags.program.check(set);
  const Program program = flags.program.program_file.empty() ? *flags.program.compile()
                                                             : read_program(flags.program.program_file);
  const Verdict verdict = judge(program);
  write_stdout(flags.output.json ? pretty(verdict_json(program, verdict))
                                 : verdict_text(program, verdict, flags.explain));
  return verdict.violation ? kInvalid : 0;
}

}  // namespace serval::cli
