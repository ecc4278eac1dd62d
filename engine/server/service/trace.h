// What the SMs did lately, for /debug/trace.
#pragma once

#include <string>

#include "engine/include/serval/engine.h"

namespace serval::server {

// Chrome trace events as JSON, which Perfetto and `serval profile` read. Throws as Engine::write_trace.
std::string trace_of(const Engine& engine);

}  // namespace serval::server
