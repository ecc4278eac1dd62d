#include <cmath>
#include <numbers>

#include "models/checkpoint/config.h"

namespace serval {
namespace {

double scale_llama3(double frequency, const Llama3RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double turns =
      static_cast<double>(scaling.original_max_position) / wavelength;  // over the original context
  if (turns > scaling.high_freq_factor) return frequency;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  const double kept =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const LlamaConfig& config) {
  std::vector<float> frequencies;
  for (int pair = 0; pair < config.head_dim / 2; ++pair) {
    double frequency = std::pow(config.rope_theta, -2.0 * pair / config.head_dim);
    if (config.rope_scaling) frequency = scale_llama3(frequency, *config.rope_scaling);
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

}  // namespace serval
