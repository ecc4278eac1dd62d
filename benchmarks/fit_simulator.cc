// How near the simulator comes to what a calibration file says was measured, and parameters that bring it
// nearer (docs/simulator.md).
//
//   fit_simulator configs/h200.sim.json                       a line a measurement
//   fit_simulator configs/h200.sim.json round_factor …        fits these and writes them into the file
#include <cstdio>
#include <string>
#include <vector>

#include "engine/compile/measured_pass.h"
#include "profiler/sim/fit.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"
#include "vm/base/write_file.h"

namespace serval {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

// Puts a number behind the last of `keys`, each of which is looked for behind the one before.
void replace_number(std::string& text, const std::vector<std::string>& keys, double value) {
  size_t at = 0;
  for (const std::string& key : keys) {
    at = text.find('"' + key + '"', at);
    if (at == std::string::npos)
      throw Error(ErrorKind::kRuntime, "calibration: there is no \"" + key + "\" to change");
    at += key.size() + 2;
  }
  const size_t begin = text.find_first_not_of(": ", at);
  const size_t end = text.find_first_of(",}", begin);
  char number[32];
  std::snprintf(number, sizeof(number), "%.4g", value);
  text.replace(begin, end - begin, number);
}

void write_back(const std::string& path, const SimParameters& parameters,
                const std::vector<std::string>& names) {
  std::string text = read_text_file(path, kMaxFileBytes);
  for (const std::string& name : names) {
    const size_t dot = name.find('.');
    const double value = sim_parameter(parameters, name);
    if (dot == std::string::npos) {
      replace_number(text, {"parameters", name, "value"}, value);
    } else {
      replace_number(text, {"ops", name.substr(0, dot), name.substr(dot + 1)}, value);
    }
  }
  write_file(path, text);
}

void print(const SimParameters& parameters, const std::vector<MeasuredPass>& passes) {
  std::printf("%-48s %10s %10s %8s\n", "", "measured", "simulated", "error");
  for (const MeasuredPass& pass : passes) {
    const double us = predict_us(pass, parameters);
    std::printf("%-48s %7.1f us %7.1f us %+6.1f %%\n", pass.name.c_str(), pass.us, us,
                100 * (us / pass.us - 1));
  }
  std::printf("root of the mean square: %.1f %%\n", 100 * fit_error(parameters, passes));
}

void run(const std::string& path, const std::vector<std::string>& names) {
  SimParameters parameters = read_sim_parameters(path);
  std::vector<MeasuredPass> passes;
  for (const MeasuredToken& token : parameters.measured) passes.push_back(measured_pass(token));
  if (!names.empty()) {
    parameters = fit(parameters, names, passes);
    write_back(path, parameters, names);
  }
  for (const std::string& name : names)
    std::printf("%s = %.4g\n", name.c_str(), sim_parameter(parameters, name));
  print(parameters, passes);
}

}  // namespace
}  // namespace serval

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: fit_simulator CALIBRATION [PARAMETER …]\n", stderr);
    return static_cast<int>(serval::ErrorKind::kUsage);
  }
  try {
    serval::run(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  } catch (const serval::Error& error) {
    std::fprintf(stderr, "fit_simulator: %s\n", error.what());
    return error.exit_code();
  }
  return 0;
}
