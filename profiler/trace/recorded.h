// From the events that an interpreter has recorded to a trace.
#pragma once

#include <map>
#include <string>

#include "profiler/trace/trace.h"
#include "vm/events.h"

namespace serval {

// The trace of a launch, or of as much of it as the rings still hold: passes of which every instruction's
// signal is there. Of the pass after the last one, what had begun. The clocks of a GPU's SMs are aligned
// (profiler/trace/align_clocks.h), and those of several GPUs (align_ranks.h). Throws Error(kRuntime) if no
// pass is complete or an event names what the program does not have.
Trace trace_of(TraceProgram program, const EventRings& rings, TraceSource source,
               std::map<std::string, std::string> metadata);

// Events that a ring needs to hold the last `passes` passes of a program, even if it is an SM's only one. The
// the loader and other roles that run ahead add one pass.
uint32_t ring_capacity(const TraceProgram& program, uint32_t passes);

}  // namespace serval
