// The flags of the commands that look at a program: a file that holds one, or a model and how to compile it.
#pragma once

#include <string>

#include "engine/cli/flags/common_options.h"
#include "instructions/common/cost.h"
#include "scheduler/valid_program.h"

namespace serval::cli {

struct ProgramFlags {
  std::string program_file;  // empty: compile
  std::string machine = "h200";
  EngineOptions engine;  // what of it says which model, and how it is compiled
  uint32_t rows = 1;     // of the pass that the program is for, and that estimates look at

  // `purpose`: what is done with a program file, for the help.
  void declare(FlagSet& set, const std::string& purpose);
  // Throws Error(kUsage) if the command line says how to compile what is compiled already.
  void check(const FlagSet& set) const;
  // `cached_tokens`: of a row's sequence, for the cost model. No weights are touched. Throws as
  // compile_gpu_program() does, and Error(kRuntime) for what is no model.
  ValidProgram compile(uint32_t cached_tokens = CostContext{}.context_tokens) const;
};

}  // namespace serval::cli
