// Makes a trace from the events that an interpreter has recorded.
#pragma once

#include <map>
#include <string>

#include "profiler/trace/trace.h"
#include "vm/events.h"

namespace serval {

// The trace of a launch, as far as the rings still hold it: its last passes of which every instruction has
// signalled, and the executions of the next pass that had begun. The clocks of a GPU's SMs are aligned
// (profiler/trace/align_clocks.h), and those of several GPUs (align_ranks.h). Throws Error(kRuntime) if no
// pass is complete, or if an event names something that the program does not have.
Trace trace_of(TraceProgram program, const EventRings& rings, TraceSource source,
               std::map<std::string, std::string> metadata);

// The number of events that a ring needs to hold the last `passes` passes of a program, even if it is its
// SM's only ring. The loader and other roles that run ahead add one pass.
uint32_t ring_capacity(const TraceProgram& program, uint32_t passes);

}  // namespace serval
