// Fits parameters of the simulator to measured times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "profiler/sim/parameters.h"
#include "profiler/sim/simulate.h"
#include "vm/program.h"

namespace serval {

// A pass of a program, timed on a GPU.
struct MeasuredPass {
  std::string name;  // to be printed
  Program program;
  SimLaunch launch;  // its last pass is the one that was timed
  double us = 0;
  std::vector<std::string> what_ifs;  // what the timed kernel had left out, as changes of parameters
};

// predict_us() of the pass, with its what-ifs applied.
double predict_us(const MeasuredPass& pass, SimParameters parameters);

// The root of the mean square of log(predicted / measured): 0.05 is an error of 5 %.
double fit_error(const SimParameters& parameters, std::span<const MeasuredPass> measured);

// Multiplies each of the parameters `names` by factors, in turn and in ever finer steps, while the error gets
// smaller. A parameter that is 0 stays 0. Deterministic; takes some dozen simulations of all passes for each
// parameter. Throws as predict_us() and set_sim_parameter().
SimParameters fit(SimParameters parameters, std::span<const std::string> names,
                  std::span<const MeasuredPass> measured);

}  // namespace serval
