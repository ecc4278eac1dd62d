// Finds the placement policy that is fastest on the simulator (profiler/sim) rather than by the cost model.
#pragma once

#include "engine/compile/compile_model.h"

namespace serval {

// Simulates decoding under every policy with the H200's calibration. Layers are alike, so a few of them
// suffice. `schedule` gives the pass to time. Throws as compile_model() and predict_us().
Policy best_policy(const Model& model, const Machine& machine, const ProgramLimits& limits,
                   const ScheduleOptions& schedule);

}  // namespace serval
