// What an instruction costs, for placement, the simulator and roofline reports.
#pragma once

#include <cstdint>

namespace serval {

// A typical pass, since rows and contexts are known only at run time.
struct CostContext {
  uint32_t rows = 1;              // active rows
  uint32_t context_tokens = 128;  // tokens in the cache of each
};

struct Cost {
  uint64_t bytes = 0;       // from global memory: weights, KV and activations read
  uint64_t operations = 0;  // a multiply and an add count as two
};

// Pages of shared memory an instruction must be able to hold at once to make progress: `pinned` from start to
// end, and at least `streaming` more that come and go.
struct PageNeed {
  uint32_t pinned = 0;
  uint32_t streaming = 0;
};

}  // namespace serval
