// What sampling parameters may be, stated once: for generation_config.json, the command line and the API.
#pragma once

#include <cstdint>
#include <string>

namespace serval {

struct SamplingRange {
  const char* name;  // in generation_config.json and the API
  double least, most;
  bool least_excluded = false;
  bool is_whole = false;

  // Looked at as the float that it becomes. False for a NaN.
  constexpr bool holds(double value) const {
    if (!(value >= least && value <= most)) return false;
    return !least_excluded || static_cast<float>(value) > static_cast<float>(least);
  }
  // "0 to 100", or "above 0, up to 1".
  std::string text() const;
};

namespace sampling_range {
inline constexpr SamplingRange kTemperature{"temperature", 0, 100};                    // 0: greedy
inline constexpr SamplingRange kTopK{"top_k", 0, INT32_MAX, false, true};              // 0: off
inline constexpr SamplingRange kTopP{"top_p", 0, 1, true};                             // 1: off
inline constexpr SamplingRange kMinP{"min_p", 0, 1};                                   // 0: off
inline constexpr SamplingRange kRepetitionPenalty{"repetition_penalty", 0, 10, true};  // 1: off

// What a generation_config.json may recommend.
inline constexpr const SamplingRange* kRecommended[] = {&kTemperature, &kTopK, &kTopP, &kMinP,
                                                        &kRepetitionPenalty};
}  // namespace sampling_range

}  // namespace serval
