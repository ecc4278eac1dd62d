// Converts a program to its form in a trace.
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
  // The regions that an instruction touches in any pass; null if no instruction pushes to other devices.
  void (*footprint)(const Program&, const Instruction&, Footprint&) = nullptr;
};
// The functions of the Llama instruction set.
const TraceIsa& trace_isa();

// `context` is that of the traced pass, for the costs and for the pushed bytes. Thread-safe.
TraceProgram trace_program(const Program& program, const TraceIsa& isa, const CostContext& context);

}  // namespace serval
