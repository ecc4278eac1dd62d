// A part of a trace.
#pragma once

#include <cstdint>

#include "profiler/trace/trace.h"

namespace serval {

// The last `tokens` windows (all of them if there are fewer) and what runs in or after them, with the
// earliest time at 0. The trace has a window.
Trace last_tokens(Trace trace, uint32_t tokens);

}  // namespace serval
