// The flags of the commands that look at a program: a file that holds one, or a model and how to compile it.
#pragma once

#include <string>

#include "engine/cli/common_options.h"
#include "instructions/common/cost.h"
#include "vm/program.h"

namespace serval::cli {

struct ProgramFlags {
  std::string program_file;  // empty: compile
  std::string model;
  std::string machine = "h200";
  int context = 0;
  int threads = 0;
  ScheduleFlags schedule;

  // `purpose`: what is done with a program file, for the help.
  void declare(FlagSet& set, const std::string& purpose);
  // Throws Error(kUsage) if the command line says how to compile what is compiled already.
  void check(const FlagSet& set) const;
  // `cost`: the pass that the cost model looks at. No weights are touched. Throws as compile() does, and
  // Error(kRuntime) for what is no model.
  Program compile_model(const CostContext& cost) const;
};

}  // namespace serval::cli
