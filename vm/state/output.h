// Results of a launch, two parts of the state block: the tokens sampled in a pass, and the table of the
// output of all its passes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vm/state/slots.h"

namespace serval {

// Result of `sample` for a row: the token drawn, or the row's target.
struct SampledToken {
  int32_t token = 0;
  float log_probability = 0;  // natural log under the model's own softmax, before penalties and temperature;
                              // NaN if, and only if, a logit of the row is NaN or infinite
};

// The likeliest tokens of a row: the first SequenceSlot::num_top of them (or the whole vocabulary), under the
// same softmax, in descending order of probability; of equals, the lowest id first. Only in launches of one
// pass, since the next pass would overwrite them.
struct TopTokens {
  SampledToken token[kMaxTopTokens];
};

enum class FinishReason : uint32_t {
  kNone = 0,
  kStopToken = 1,  // an end-of-sequence token was sampled
  kLength = 2,     // the next position would be beyond `end_position`
  kNotFinite = 3,  // a logit was NaN or infinite: the token is meaningless
};

// Entry [pass][row] of the output table, which `advance` publishes.
struct OutputToken {
  uint16_t valid = 0;   // 1 if this row sampled a token of its sequence in this pass
  uint16_t drafts = 0;  // number of drafted tokens that were evaluated after this row's
  uint32_t slot = 0;
  int32_t token = 0;
  float log_probability = 0;
  uint32_t position = 0;  // of the sampled token
  FinishReason finish = FinishReason::kNone;
};
static_assert(sizeof(OutputToken) == 24);

// A launch has as many passes as the output table holds: up to kMostLaunchPasses for few rows, and fewer for
// many, so that no program's table has more than kMostOutputTokens entries (1.5 MiB).
inline constexpr uint32_t kMostLaunchPasses = 4096;
inline constexpr uint32_t kMostOutputTokens = 65536;

// Limit of passes in a launch of a program with `rows` rows: 4,096 up to 16 rows, 256 for 256, 8 for 8,192.
constexpr uint32_t launch_passes(uint32_t rows) {
  return std::min(kMostLaunchPasses, kMostOutputTokens / rows);
}
// Entries that hold the output of any program of up to `rows` rows.
constexpr size_t output_tokens(uint32_t rows) {
  return std::min(size_t{kMostLaunchPasses} * rows, size_t{kMostOutputTokens});
}

// The output table of a program with `rows` rows: `rows` entries for each pass.
struct OutputTable {
  OutputToken* tokens = nullptr;
  uint32_t rows = 0;

  std::span<OutputToken> operator[](size_t pass) const { return {tokens + pass * rows, rows}; }
};

}  // namespace serval
