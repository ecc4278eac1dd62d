#include "profiler/sim/fit.h"

#include <cmath>

#include "vm/base/error.h"

namespace serval {
namespace {

constexpr double kSteps[] = {1.5, 1.2, 1.1, 1.05, 1.02};  // factors
constexpr int kMaxRounds = 4;                             // over all parameters, for each step
constexpr double kMinImprovement = 1e-5;                  // of the error

struct Candidate {
  SimParameters parameters;
  double error;
};

// Changes one parameter of the candidate if the new value is within its range and the error gets smaller.
bool improve(Candidate& best, const std::string& name, double factor,
             std::span<const MeasuredPass> measured) {
  Candidate next = best;
  try {
    set_sim_parameter(next.parameters, name, sim_parameter(best.parameters, name) * factor);
  } catch (const Error&) {
    return false;  // out of its range
  }
  next.error = fit_error(next.parameters, measured);
  if (next.error > best.error - kMinImprovement) return false;
  best = std::move(next);
  return true;
}

// Changes one parameter in the direction that helps, as long as that helps.
bool improve_along(Candidate& best, const std::string& name, double step,
                   std::span<const MeasuredPass> measured) {
  for (const double factor : {step, 1 / step}) {
    if (!improve(best, name, factor, measured)) continue;
    while (improve(best, name, factor, measured)) {
    }
    return true;
  }
  return false;
}

}  // namespace

double predict_us(const MeasuredPass& pass, SimParameters parameters) {
  for (const std::string& what_if : pass.what_ifs) apply_what_if(parameters, what_if);
  return predict_us(pass.program, pass.launch, parameters);
}

double fit_error(const SimParameters& parameters, std::span<const MeasuredPass> measured) {
  double sum = 0;
  for (const MeasuredPass& pass : measured) {
    const double error = std::log(predict_us(pass, parameters) / pass.us);
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(measured.size()));
}

SimParameters fit(SimParameters parameters, std::span<const std::string> names,
                  std::span<const MeasuredPass> measured) {
  for (const std::string& name : names) (void)sim_parameter(parameters, name);  // throws if it does not exist
  const double error = fit_error(parameters, measured);
  Candidate best{std::move(parameters), error};
  for (const double step : kSteps) {
    bool better = true;
    for (int round = 0; better && round < kMaxRounds; ++round) {
      better = false;
      for (const std::string& name : names) better |= improve_along(best, name, step, measured);
    }
  }
  return best.parameters;
}

}  // namespace serval
