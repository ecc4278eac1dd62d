// A program as a trace has it.
#pragma once

#include <string>

#include "instructions/common/cost.h"
#include "profiler/trace/trace.h"
#include "vm/program.h"
#include "vm/region.h"

namespace serval {

// The functions of an instruction set that a trace needs. Tests have toy instruction sets.
struct TraceIsa {
  const char* (*name)(uint16_t opcode);
  Cost (*cost)(const Program&, const Instruction&, const CostContext&);
  std::string (*text)(const Program&, const Instruction&);
  // The regions that it touches in any pass; null where no instruction pushes to other devices.
  void (*footprint)(const Instruction&, Footprint&) = nullptr;
};
// Llama's.
const TraceIsa& trace_isa();

// `context`: of the pass that is traced, for the costs and for the bytes that are pushed. Thread-safe.
TraceProgram trace_program(const Program& program, const TraceIsa& isa, const CostContext& context);

}  // namespace serval
