// Traces of toy programs on the host interpreter.
#pragma once

#include "profiler/trace/trace.h"
#include "tests/vm/toy_isa.h"

namespace serval::testing {

// The toy instruction set in the form for traces: an instruction reads `value` bytes.
TraceProgram toy_trace_program(const Program& program);

// Runs `passes` passes, recorded in rings that hold the last `kept` of them.
Trace record_toy(ToyMachine& machine, uint32_t passes, uint32_t kept);

}  // namespace serval::testing
