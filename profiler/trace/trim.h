// Cuts a trace to its last tokens.
#pragma once

#include <cstdint>

#include "profiler/trace/trace.h"

namespace serval {

// The last `tokens` windows (or all, if there are fewer) with the executions during and after them. Times are
// shifted so that the earliest is 0. The trace must have a window.
Trace last_tokens(Trace trace, uint32_t tokens);

}  // namespace serval
