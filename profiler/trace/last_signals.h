// When the ranks had signalled a counter.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

// The increments and the last signal of a rank for one counter in a pass.
struct RankSignals {
  int64_t last_ns = kNever;
  uint32_t last = 0;  // the execution that signalled last
};

// Thread-safe once made. The trace outlives it.
class LastSignals {
 public:
  explicit LastSignals(const Trace& trace);

  // [ranks] what ended a wait that needs all increments of its counter, of this pass or, with a threshold of
  // 0, of the pass before. Null for other waits, and where the trace has no such signal.
  const std::vector<RankSignals>* before(const Wait& wait, uint32_t pass) const;

 private:
  const Trace& trace_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<RankSignals>> of_;  // by pass and counter
};

}  // namespace serval
