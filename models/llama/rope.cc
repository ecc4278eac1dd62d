#include "models/llama/rope.h"

#include <cmath>
#include <numbers>

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

std::vector<float> make_rope_table(const LlamaConfig& config, uint32_t positions) {
  const std::vector<float> frequencies = rope_inverse_frequencies(config);
  const size_t pairs = frequencies.size();
  std::vector<float> table(size_t{positions} * pairs * 2);
  for (uint32_t p = 0; p < positions; ++p) {
    float* row = table.data() + size_t{p} * pairs * 2;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<float>(p) * frequencies[i];
      row[i] = static_cast<float>(std::cos(angle));
      row[pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace serval
