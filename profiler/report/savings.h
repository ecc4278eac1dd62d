// Predicts with the simulator how much time changes to the machine or the kernel would save.
#pragma once

#include <cstddef>
#include <vector>

#include "profiler/report/report.h"
#include "profiler/sim/simulate.h"

namespace serval {

// The changes that save most of the launch's last pass, largest first, without those that save nothing. Runs
// one simulation for each, on as many threads as there are cores, at most eight. Throws as simulate().
std::vector<Saving> predicted_savings(const Program& program, const SimLaunch& launch,
                                      const SimParameters& parameters, size_t most);

}  // namespace serval
