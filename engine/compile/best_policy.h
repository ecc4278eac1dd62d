// The placement policy that is fastest on the simulator (profiler/sim), instead of on the cost model.
#pragma once

#include "engine/compile/compile_model.h"

namespace serval {

// Simulates decoding on the H200's calibration under every policy; layers are alike, so some of them stand
// for all. Of `schedule`, the pass to time is what counts. Throws as compile_model() and predict_us().
Policy best_policy(const Model& model, const Machine& machine, const ProgramLimits& limits,
                   const ScheduleOptions& schedule);

}  // namespace serval
