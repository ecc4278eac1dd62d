// What the SMs did lately, for /debug/trace.
#pragma once

#include <string>

#include "engine/include/serval/engine.h"

namespace serval::server {

// N of the query "tokens=N"; 0 where there is none: all that are kept. Throws ApiError (400) for another
// query.
int trace_tokens_of(const std::string& query);
// Chrome trace events of the last so many tokens as JSON, which Perfetto and `serval profile` read. Throws as
// Engine::write_trace.
std::string trace_of(const Engine& engine, int tokens);

}  // namespace serval::server
