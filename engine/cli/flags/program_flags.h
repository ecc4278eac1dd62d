// The flags of commands that inspect a program: a program file, or a model and how to compile it.
#pragma once

#include <string>

#include "engine/cli/flags/common_options.h"
#include "engine/runtime/program_request.h"
#include "instructions/common/cost.h"
#include "scheduler/valid_program.h"

namespace serval::cli {

struct ProgramFlags {
  std::string program_file;  // empty: compile
  TargetMachine machine = TargetMachine::kH200;
  EngineOptions engine;  // selects the model and how it is compiled
  uint32_t rows = 1;     // of the pass that the program and the estimates are for

  // `purpose` is the verb for a program file in the help.
  void declare(FlagSet& set, const std::string& purpose);
  // Throws Error(kUsage) if the command line says how to compile what is compiled already. A model beside a
  // program file is what the program is compared with, where the command does that.
  enum class ModelOfFile : uint8_t { kNone, kCompared };
  void check(const FlagSet& set, ModelOfFile model = ModelOfFile::kNone) const;
  // `cached_tokens`: of a row's sequence, for the cost model. No weights are touched. Throws as
  // compile_gpu_program() does, and Error(kRuntime) for what is no model.
  ValidProgram compile(uint32_t cached_tokens = CostContext{}.context_tokens) const;
};

}  // namespace serval::cli
