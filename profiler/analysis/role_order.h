// The order in which each role of each SM took its instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

// When a role began with an execution; kNever if it took no part in it.
int64_t begin_of(const Execution& execution, SmRole role);

// [SM] indices into Trace::executions: those in which the role took part, ordered by begin_of().
std::vector<std::vector<uint32_t>> role_order(const Trace& trace, SmRole role);

}  // namespace serval
