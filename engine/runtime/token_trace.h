// Events of the last tokens, kept in rings while a backend works.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/backend/backend.h"
#include "instructions/common/cost.h"
#include "profiler/trace/trace.h"

namespace serval {

// From the next launch on, events of its last `tokens` tokens are kept. Throws Error(kRuntime) where the
// backend cannot.
void keep_last_tokens(Backend& backend, uint32_t tokens, RecordingDetail detail = RecordingDetail::kMoments);

// What the last launch left, at most `tokens` of it. `context`: of the traced pass, for the costs. Throws
// Error(kRuntime) if nothing has run since, or no whole token is there.
Trace trace_of_last_tokens(Backend& backend, uint32_t tokens, const CostContext& context,
                           std::map<std::string, std::string> metadata);

}  // namespace serval
