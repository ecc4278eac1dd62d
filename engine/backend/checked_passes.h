// Runs the checked mode (vm/host/checked.h) on a model's real passes, with the exact footprints of each
// pass's state.
#pragma once

#include <cstdint>
#include <vector>

#include "vm/program.h"
#include "vm/state/block.h"
#include "vm/state/view.h"

namespace serval {

class CheckedPasses {
 public:
  // The program must outlive it. Pass p is interleaved with seed `seed` + p.
  CheckedPasses(const Program& program, uint64_t seed) : program_(program), seed_(seed) {}

  // Call before each pass, with the state that the pass will read. Runs the pass after the previous one in
  // the checked mode. Throws Error(kRuntime) with the conflict that it finds.
  void check(const StateBlock& state);

 private:
  struct Pass {
    std::vector<PassRow> rows;
    std::vector<int32_t> block_table;
    std::vector<uint32_t> attention;  // an AttentionList with its items
  };
  StateView view(const Pass& pass) const;

  const Program& program_;
  const uint64_t seed_;
  uint64_t passes_ = 0;  // checked so far
  Pass previous_, current_;
};

}  // namespace serval
