// Keeps events of the last tokens in rings while a backend runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/backend/backend.h"
#include "instructions/common/cost.h"
#include "profiler/trace/trace.h"

namespace serval {

// From the next launch on, keeps the events of its last `tokens` tokens. Throws Error(kRuntime) if the
// backend cannot record.
void keep_last_tokens(Backend& backend, uint32_t tokens, RecordingDetail detail = RecordingDetail::kMoments);

// The trace of the last launch, at most its last `tokens` tokens. `context` describes the traced pass for the
// costs. Throws Error(kRuntime) if nothing has run since, or if no whole token was recorded.
Trace trace_of_last_tokens(Backend& backend, uint32_t tokens, const CostContext& context,
                           std::map<std::string, std::string> metadata);

}  // namespace serval
