// The placement policy that is fastest on the simulator (profiler/sim), instead of on the cost model.
#pragma once

#include "instructions/common/cost.h"
#include "models/checkpoint/config.h"
#include "models/llama/graph.h"
#include "scheduler/placement.h"
#include "vm/machine.h"

namespace serval {

// What the engine's options call it.
inline constexpr const char* kBestPolicy = "best";

// Simulates decoding on the H200's calibration under every policy; layers are alike, so some of them stand
// for all. `pass`: the one that is timed. Throws as compile() and predict_us().
Policy best_policy(const LlamaConfig& config, const GraphOptions& options, const Machine& machine,
                   const CostContext& pass);

}  // namespace serval
