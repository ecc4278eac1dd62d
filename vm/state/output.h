// What a launch finds out, two parts of the state block: the tokens sampled in a pass, and the table of those
// that all its passes have published.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vm/state/slots.h"

namespace serval {

// What `sample` found for a row.
struct SampledToken {
  int32_t token = 0;
  float log_probability = 0;  // natural log under the model's own softmax, before penalties and temperature;
                              // NaN if, and only if, a logit of the row is NaN or infinite
};

// The likeliest tokens of a row, the first SequenceSlot::num_top of them, as far as there are so many, under
// the same softmax: the likeliest first, of equals the lowest id. Only of launches of one pass: the next
// would overwrite them.
struct TopTokens {
  SampledToken token[kMaxTopTokens];
};

enum class FinishReason : uint32_t {
  kNone = 0,
  kStopToken = 1,  // an end-of-sequence token was sampled
  kLength = 2,     // the next position would be beyond `end_position`
  kNotFinite = 3,  // a logit was NaN or infinite: the token means nothing
};

// What `advance` publishes for a row of a pass: entry [pass][row] of the output table.
struct OutputToken {
  uint32_t valid = 0;  // 1 if this row sampled a token in this pass
  uint32_t slot = 0;
  int32_t token = 0;
  float log_probability = 0;
  uint32_t position = 0;  // of the sampled token
  FinishReason finish = FinishReason::kNone;
};
static_assert(sizeof(OutputToken) == 24);

// A launch has as many passes as the output table holds: up to kMostLaunchPasses of few rows, fewer of many,
// so that the table of no program has more than kMostOutputTokens entries (1.5 MiB).
inline constexpr uint32_t kMostLaunchPasses = 4096;
inline constexpr uint32_t kMostOutputTokens = 65536;

// Passes in one launch of a program of `rows` rows, at most: 4,096 up to 16 rows, 256 of 256, 8 of 8,192.
constexpr uint32_t launch_passes(uint32_t rows) {
  return std::min(kMostLaunchPasses, kMostOutputTokens / rows);
}
// Entries that hold the output of any program of up to `rows` rows.
constexpr size_t output_tokens(uint32_t rows) {
  return std::min(size_t{kMostLaunchPasses} * rows, size_t{kMostOutputTokens});
}

// The output table as a program of `rows` rows fills it: pass after pass, `rows` entries each.
struct OutputTable {
  OutputToken* tokens = nullptr;
  uint32_t rows = 0;

  std::span<OutputToken> operator[](size_t pass) const { return {tokens + pass * rows, rows}; }
};

}  // namespace serval
