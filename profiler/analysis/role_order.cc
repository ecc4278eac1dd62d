#include "profiler/analysis/role_order.h"

#include <algorithm>

namespace serval {

int64_t begin_of(const Execution& execution, SmRole role) {
  switch (role) {
    case SmRole::kController:
      return execution.time(EventKind::kFetchBegin);
    case SmRole::kLoader:
      return execution.time(EventKind::kLoadBegin);
    case SmRole::kPreparer:
      // Without a wait, the preparers begin when the inputs are ready.
      return execution.has(EventKind::kWaitBegin) ? execution.time(EventKind::kWaitBegin)
                                                  : execution.time(EventKind::kInputsReady);
    case SmRole::kConsumer:
      return execution.time(EventKind::kComputeBegin);
    case SmRole::kStorer:
      return execution.time(EventKind::kStoreBegin);
  }
  return kNever;
}

std::vector<std::vector<uint32_t>> role_order(const Trace& trace, SmRole role) {
  std::vector<std::vector<uint32_t>> out(trace.program.machine.sms);
  for (uint32_t e = 0; e < trace.executions.size(); ++e) {
    const Execution& x = trace.executions[e];
    if (begin_of(x, role) != kNever) out.at(x.sm).push_back(e);
  }
  const auto earlier = [&](uint32_t a, uint32_t b) {
    return begin_of(trace.executions[a], role) < begin_of(trace.executions[b], role);
  };
  for (std::vector<uint32_t>& of_sm : out) std::stable_sort(of_sm.begin(), of_sm.end(), earlier);
  return out;
}

}  // namespace serval
