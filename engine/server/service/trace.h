// Traces of the last tokens, for /debug/trace.
#pragma once

#include <string>

#include "engine/include/serval/engine.h"

namespace serval::server {

// N of the query "tokens=N"; 0, which means all recorded tokens, for an empty query. Throws ApiError (400)
// for another query.
int trace_tokens_of(const std::string& query);
// Chrome trace events of the last `tokens` tokens as JSON, for Perfetto and `serval profile`. Throws as
// Engine::write_trace does.
std::string trace_of(const Engine& engine, int tokens);

}  // namespace serval::server
