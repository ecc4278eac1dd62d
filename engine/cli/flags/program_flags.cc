#include "engine/cli/flags/program_flags.h"

#include <chrono>

#include "fmt/format.h"

#include "engine/cli/output/log.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "vm/base/error.h"

namespace serval::cli {

void ProgramFlags::declare(FlagSet& set, const std::string& purpose) {
  set.positional("PROGRAM", fmt::format("a program file to {}, instead of compiling a model", purpose),
                 [this](const FlagValue& v) { program_file = parse_text(v); });
  declare_model_name(set, engine.model);
  declare_weight_formats(set, engine);
  declare_context(set, engine);
  declare_schedule(set, engine);
  set.value("--machine", "NAME",
            fmt::format("what to compile for: {}. Default: {}", listed<TargetMachine>(), name_of(machine)),
            [this](const FlagValue& v) { machine = parse_enumerator<TargetMachine>(v); });
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
  if (model_of_file == ModelOfFile::kNone)
    check_not_compiled(set, program_file, {"--model", "--weights", "--lm-head", "--activations"});
  check_not_compiled(set, program_file,
                     {"--ctx-size", "--machine", "--sms", "--gpus", "--policy", "--queue", "--threads",
                      "--max-sequences", "--max-batch-tokens", "--batch-invariant"});
}

ValidProgram ProgramFlags::compile(uint32_t cached_tokens) const {
  const int most = engine.max_batch_tokens;
  if (machine != TargetMachine::kHost && most > 0 && rows > static_cast<uint32_t>(most))
    throw Error(ErrorKind::kUsage, fmt::format("--rows: {}; limit: {} (--max-batch-tokens)", rows, most));
  const std::shared_ptr<const Model> model = find_model(engine).model;
  const auto begin = std::chrono::steady_clock::now();
  ValidProgram program =
      compile_program(*model, engine, {.machine = machine, .rows = rows, .cached_tokens = cached_tokens});
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  log_info(fmt::format("compiled {} instructions in {:.1f} ms", program->instructions.size(), time.count()));
  return program;
}

}  // namespace serval::cli
