// Times a pass of a program on the cost model, from its queues, waits and signals alone.
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

// Each queue runs one instruction at a time, in order; a global queue uses the SM that is free first. With
// `unlimited` SMs and bandwidth, only waits and the instructions' fixed costs take time: the latency that no
// placement can remove. Throws Error(kRuntime) if the program cannot finish.
PassTiming time_pass(const Program& program, const CostContext& context, bool unlimited);

}  // namespace serval
