// Events of the last tokens, kept in rings while an engine works.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/backend/backend.h"
#include "profiler/trace.h"

namespace serval {

// From the next launch on, events of its last `tokens` tokens are kept. Throws Error(kRuntime) where the
// backend cannot.
void keep_last_tokens(Backend& backend, uint32_t tokens);

// What the last launch left, at most `tokens` of it. Throws Error(kRuntime) if nothing has run since, or no
// whole token is there.
Trace trace_of_last_tokens(Backend& backend, uint32_t tokens);

}  // namespace serval
