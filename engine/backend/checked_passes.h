// The checked mode (vm/host/checked.h) over what a model really does: the exact footprints of each pass's
// state.
#pragma once

#include <cstdint>
#include <vector>

#include "vm/program.h"
#include "vm/state/block.h"
#include "vm/state/view.h"

namespace serval {

class CheckedPasses {
 public:
  // The program must outlive it. Pass p is interleaved as `seed` + p says.
  CheckedPasses(const Program& program, uint64_t seed) : program_(program), seed_(seed) {}

  // Before each pass, with the state that it will read: runs it behind the one before. Throws
  // Error(kRuntime) with what the checked mode found.
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
