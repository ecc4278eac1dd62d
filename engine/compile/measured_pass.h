// The programs of a calibration's measurements, for fitting and checking the calibration.
#pragma once

#include "profiler/sim/fit.h"
#include "profiler/sim/parameters.h"

namespace serval {

// Compiles the preset as the engine does for an H200. Throws Error(kRuntime) if there is no such preset or
// policy.
MeasuredPass measured_pass(const MeasuredToken& token);

}  // namespace serval
