// The flags of commands that inspect a program: a program file, or a model and how to compile it.
#pragma once

#include <string>

#include "engine/cli/flags/common_options.h"
#include "instructions/common/cost.h"
#include "scheduler/valid_program.h"

namespace serval::cli {

struct ProgramFlags {
  std::string program_file;  // empty: compile
  std::string machine = "h200";
  EngineOptions engine;  // selects the model and how it is compiled
  uint32_t rows = 1;     // of the pass that the program and the estimates are for

  // `purpose` is the verb for a program file in the help.
  void declare(FlagSet& set, const std::string& purpose);
  // Throws Error(kUsage) if options for compiling are given together with a program file.
  void check(const FlagSet& set) const;
  // `cached_tokens` is the length of each row's sequence for the cost model. Reads no weights. Throws as
  // compile_gpu_program() does, and Error(kRuntime) if the model cannot be opened.
  ValidProgram compile(uint32_t cached_tokens = CostContext{}.context_tokens) const;
};

}  // namespace serval::cli
