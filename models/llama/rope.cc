#include "models/llama/rope.h"

#include <algorithm>
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

// YaRN's ramp over the pairs of a head: the share of a pair's frequency that is divided by the factor.
class YarnRamp {
 public:
  YarnRamp(const LlamaConfig& config, const YarnRopeScaling& scaling) {
    const auto pair_that_turns = [&](double turns) {
      const double wavelength = static_cast<double>(scaling.original_max_position) / turns;
      return config.head_dim * std::log(wavelength / (2 * std::numbers::pi)) /
             (2 * std::log(config.rope_theta));
    };
    begin_ = pair_that_turns(scaling.beta_fast);
    end_ = pair_that_turns(scaling.beta_slow);
    if (scaling.truncate) {
      begin_ = std::floor(begin_);
      end_ = std::ceil(end_);
    }
    begin_ = std::max(begin_, 0.0);
    end_ = std::min(end_, config.head_dim - 1.0);
    if (begin_ == end_) end_ += 0.001;  // as transformers: avoids a ramp of length 0
  }
  double share(int pair) const { return std::clamp((pair - begin_) / (end_ - begin_), 0.0, 1.0); }

 private:
  double begin_ = 0, end_ = 0;
};

double scale_yarn(double frequency, const YarnRopeScaling& scaling, double share) {
  return frequency / scaling.factor * share + frequency * (1 - share);
}

double scaled_frequency(const LlamaConfig& config, double frequency, int pair) {
  if (const auto* linear = std::get_if<LinearRopeScaling>(&config.rope_scaling))
    return frequency / linear->factor;
  if (const auto* llama3 = std::get_if<Llama3RopeScaling>(&config.rope_scaling))
    return scale_llama3(frequency, *llama3);
  if (const auto* yarn = std::get_if<YarnRopeScaling>(&config.rope_scaling))
    return scale_yarn(frequency, *yarn, YarnRamp(config, *yarn).share(pair));
  return frequency;
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const LlamaConfig& config) {
  std::vector<float> frequencies;
  for (int pair = 0; pair < config.head_dim / 2; ++pair) {
    double frequency = std::pow(config.rope_theta, -2.0 * pair / config.head_dim);
    if (!config.rope_divisors.empty()) frequency /= config.rope_divisors[static_cast<size_t>(pair)];
    frequencies.push_back(static_cast<float>(scaled_frequency(config, frequency, pair)));
  }
  return frequencies;
}

std::vector<float> make_rope_table(const LlamaConfig& config, uint32_t positions) {
  const std::vector<float> frequencies = rope_inverse_frequencies(config);
  const auto attention_factor = static_cast<float>(config.rope_attention_factor);
  const size_t pairs = frequencies.size();
  std::vector<float> table(size_t{positions} * pairs * 2);
  for (uint32_t p = 0; p < positions; ++p) {
    float* row = table.data() + size_t{p} * pairs * 2;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<float>(p) * frequencies[i];
      row[i] = static_cast<float>(std::cos(angle)) * attention_factor;
      row[pairs + i] = static_cast<float>(std::sin(angle)) * attention_factor;
    }
  }
  return table;
}

}  // namespace serval
