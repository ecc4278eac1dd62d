// Changes to the machine or the kernel, each with the saving that the simulator predicts, largest first.
#pragma once

#include <cstddef>
#include <vector>

#include "profiler/report/report.h"
#include "profiler/sim/simulate.h"

namespace serval {

// The changes that save most of the launch's last pass, largest first; those that save nothing are left out.
// One simulation each, on as many threads as there are cores, eight at most. Throws as simulate().
std::vector<Saving> predicted_savings(const Program& program, const SimLaunch& launch,
                                      const SimParameters& parameters, size_t most);

}  // namespace serval
