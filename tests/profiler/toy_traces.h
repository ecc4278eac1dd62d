// Traces of toy programs that the host interpreter has run.
#pragma once

#include "profiler/trace/trace.h"
#include "tests/vm/toy_isa.h"

namespace serval::testing {

// The toy instruction set as traces know it: an instruction reads `value` bytes.
TraceProgram toy_trace_program(const Program& program);

// Runs `passes` passes, recorded in rings that hold the last `kept` of them.
Trace record_toy(ToyMachine& machine, uint32_t passes, uint32_t kept);

}  // namespace serval::testing
