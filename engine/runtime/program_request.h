// Compiles one program of a model without loading its weights: for listings, proofs and simulations.
#pragma once

#include <cstdint>

#include "engine/compile/compile_model.h"
#include "models/model.h"
#include "serval/engine.h"
#include "vm/base/enum_names.h"
#include "vm/machine.h"

namespace serval {

enum class TargetMachine : uint8_t { kH200, kHost };
template <>
struct EnumNames<TargetMachine> {
  static constexpr EnumName<TargetMachine> kTable[] = {{TargetMachine::kH200, "h200"},
                                                       {TargetMachine::kHost, "host"}};
};

struct ProgramRequest {
  TargetMachine machine = TargetMachine::kH200;
  uint32_t rows = 1;           // tokens that a pass computes together; more than 0
  uint32_t cached_tokens = 0;  // in the KV cache before them, for the estimates
};

// The machine, with the SMs or threads that `options` ask for.
Machine machine_of(const EngineOptions& options, TargetMachine machine);

// Compiles the program that a GPU runs for passes of `request.rows` rows, among the programs for the passes
// that `options` allow. The host's threads have a single program for all passes. Throws Error(kUsage) for
// options or rows out of range.
ValidProgram compile_program(const Model& model, const EngineOptions& options, const ProgramRequest& request);

}  // namespace serval
