// The last signals of each rank to each counter.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

// The last signal of a rank to a counter in a pass.
struct RankSignals {
  int64_t last_ns = kNever;
  uint32_t last = 0;  // the execution that signalled last
};

// Thread-safe after construction. The trace must outlive it.
class LastSignals {
 public:
  explicit LastSignals(const Trace& trace);

  // [ranks] the signals that ended a wait for all increments of its counter in this pass or, for threshold 0,
  // in the pass before. Null for other waits, and if the trace has no such signal.
  const std::vector<RankSignals>* before(const Wait& wait, uint32_t pass) const;

 private:
  const Trace& trace_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<RankSignals>> of_;  // by pass and counter
};

}  // namespace serval
