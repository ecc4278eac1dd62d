#include "engine/runtime/token_trace.h"

#include <utility>

#include "fmt/format.h"

#include "engine/runtime/engine_impl.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/trace/recorded.h"
#include "profiler/trace/trace_program.h"
#include "profiler/trace/trim.h"
#include "serval/engine.h"

namespace serval {

void keep_last_tokens(Backend& backend, uint32_t tokens, RecordingDetail detail) {
  backend.record(ring_capacity(trace_program(backend.program(), trace_isa(), {}), tokens), detail);
}

Trace trace_of_last_tokens(Backend& backend, uint32_t tokens, const CostContext& context,
                           std::map<std::string, std::string> metadata) {
  const EventRings* events = backend.events();
  if (events == nullptr) throw Error(ErrorKind::kRuntime, "trace: no recorded launch yet");
  const TraceSource source = backend.name() == "host" ? TraceSource::kHost : TraceSource::kDevice;
  return last_tokens(
      trace_of(trace_program(backend.program(), trace_isa(), context), *events, source, std::move(metadata)),
      tokens);
}

void Engine::write_trace(const std::string& path, int tokens) const {
  const uint32_t kept = impl_->parts.trace_tokens;
  if (kept == 0) throw Error(ErrorKind::kUsage, "trace_tokens: 0; set 1 or more to write a trace");
  if (tokens < 0 || static_cast<uint32_t>(tokens) > kept)
    throw Error(ErrorKind::kUsage,
                fmt::format("tokens: {}; limit: 1 to {}, which trace_tokens keeps", tokens, kept));
  const uint32_t wanted = tokens == 0 ? kept : static_cast<uint32_t>(tokens);
  Backend& backend = *impl_->parts.backend;
  impl_->core.on_loop([&] {
    serval::write_trace(trace_of_last_tokens(backend, wanted, {}, backend.program().metadata), path);
  });
}

}  // namespace serval
