// serval validate: proves that a program may run, or reports why not with exit code 1.
#include "scheduler/validate.h"

#include <chrono>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/program_flags.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "engine/runtime/model_source.h"
#include "models/program_proof.h"

namespace serval::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kExamples =
    "  serval validate\n"
    "  serval validate -m llama-3.1-70b --policy list\n"
    "  serval schedule -m llama-3.1-8b -o 8b.program && serval validate 8b.program --explain\n"
    "  serval validate 8b.program -m llama-3.1-8b    # that it computes this model, too\n";

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

// `model`: that the program must compute; null: any.
Verdict judge(const Program& program, const Model* model) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Violation> violation = validate(program);
  if (!violation && model != nullptr) violation = difference_from(program, *model);
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
  FlagSet set("validate",
              "Proves that a program may run: in any state, with any timing of SMs and memory; and, "
              "of a file with --model, that it computes that model.",
              "[PROGRAM] [FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  flags.program.check(set, ProgramFlags::ModelOfFile::kCompared);
  const bool is_file = !flags.program.program_file.empty();
  const Program program = is_file ? read_program(flags.program.program_file) : *flags.program.compile();
  std::shared_ptr<const Model> model;
  if (is_file && set.given("--model")) model = find_model(flags.program.engine).model;
  const Verdict verdict = judge(program, model.get());
  write_stdout(flags.output.json ? pretty(verdict_json(program, verdict))
                                 : verdict_text(program, verdict, flags.explain));
  return verdict.violation ? kInvalid : 0;
}

}  // namespace serval::cli
