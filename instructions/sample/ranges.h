// Ranges of sampling parameters, defined once for generation_config.json, the command line and the API.
#pragma once

#include <cstdint>
#include <string>

#include "vm/state/slots.h"

namespace serval {

struct SamplingRange {
  const char* name;  // in generation_config.json and the API
  double least, most;
  bool least_excluded = false;
  bool is_whole = false;

  // Compares with an excluded bound in float, the parameter's type. False for a NaN.
  constexpr bool holds(double value) const {
    if (!(value >= least && value <= most)) return false;
    return !least_excluded || static_cast<float>(value) > static_cast<float>(least);
  }
  // "0 to 100", or "above 0, up to 1".
  std::string text() const;
};

namespace sampling_range {
inline constexpr SamplingRange kTemperature{"temperature", 0, 100};                        // 0: greedy
inline constexpr SamplingRange kTopK{"top_k", 0, INT32_MAX, false, true};                  // 0: off
inline constexpr SamplingRange kTopP{"top_p", 0, 1, true};                                 // 1: off
inline constexpr SamplingRange kMinP{"min_p", 0, 1};                                       // 0: off
inline constexpr SamplingRange kRepetitionPenalty{"repetition_penalty", 0, 10, true};      // 1: off
inline constexpr SamplingRange kRepeatLastN{"repeat_last_n", -1, INT32_MAX, false, true};  // 0: off, -1: all
inline constexpr SamplingRange kPresencePenalty{"presence_penalty", -2, 2};                // 0: off
inline constexpr SamplingRange kFrequencyPenalty{"frequency_penalty", -2, 2};              // 0: off
inline constexpr SamplingRange kLogitBias{"logit_bias", -100, 100};
inline constexpr SamplingRange kMinTokens{"min_tokens", 0, INT32_MAX, false, true};
inline constexpr SamplingRange kTopLogprobs{"top_logprobs", 0, kMaxTopTokens, false, true};

// Parameters that a generation_config.json may recommend.
inline constexpr const SamplingRange* kRecommended[] = {&kTemperature, &kTopK, &kTopP, &kMinP,
                                                        &kRepetitionPenalty};
}  // namespace sampling_range

}  // namespace serval
