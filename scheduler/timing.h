// A pass of a program on the cost model, from its queues, waits and signals alone.
#pragma once

#include <cstdint>
#include <vector>

#include "instructions/common/cost.h"
#include "vm/program.h"

namespace serval {

struct PassTiming {
  double end_us = 0;
  // Instructions (indices into Program::instructions) from the first to the last of the longest chain.
  std::vector<uint32_t> critical_path;
};

// With `unlimited_sms` only waits order the instructions; otherwise each queue also runs one at a time, in
// order (a global queue: on whichever SM is free). Throws Error(kRuntime) if the program cannot finish.
PassTiming time_pass(const Program& program, const CostContext& context, bool unlimited_sms);

}  // namespace serval
