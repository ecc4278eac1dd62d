#include "profiler/trace/trim.h"

#include <algorithm>

namespace serval {
namespace {

int64_t earliest_time(const Trace& trace) {
  int64_t first = trace.windows.front().begin_ns;
  for (const Execution& e : trace.executions) first = std::min(first, first_time(e));
  return first;
}

void shift_times(Trace& trace, int64_t by_ns) {
  for (PassWindow& w : trace.windows) w = {w.pass, w.begin_ns + by_ns, w.end_ns + by_ns};
  for (PageSample& s : trace.samples) s.at_ns += by_ns;
  for (Execution& e : trace.executions) {
    for (int64_t& t : e.at) {
      if (t != kNever) t += by_ns;
    }
  }
}

}  // namespace

Trace last_tokens(Trace trace, uint32_t tokens) {
  const size_t kept = std::min<size_t>(tokens, trace.windows.size());
  trace.windows.erase(trace.windows.begin(), trace.windows.end() - static_cast<ptrdiff_t>(kept));
  const uint32_t first = trace.windows.front().pass, last = trace.windows.back().pass;
  std::erase_if(trace.executions, [&](const Execution& e) { return e.pass < first || e.pass > last + 1; });
  const int64_t origin = earliest_time(trace);
  std::erase_if(trace.samples, [&](const PageSample& s) { return s.at_ns < origin; });
  shift_times(trace, -origin);
  return trace;
}

}  // namespace serval
