// Limits of a state block, for which a program is compiled.
#pragma once

#include <algorithm>
#include <cstdint>

namespace serval {

// Rows of a pass (tokens computed together) and sequences (slots of the state) are independent limits: a pass
// may read one prompt in 2,048 rows, or one row each of 200 sequences.
inline constexpr uint32_t kLargestRows = 8192;
inline constexpr uint32_t kLargestSequences = 1024;
// Defaults of a program.
inline constexpr uint32_t kDefaultRows = 16;
inline constexpr uint32_t kDefaultSequences = 16;

struct StateLimits {
  uint32_t vocab = 0;                      // token ids are < vocab
  uint32_t max_context = 0;                // positions are < max_context
  uint32_t kv_blocks = 0;                  // entries of the block table are < kv_blocks
  uint32_t rows = kDefaultRows;            // of a pass, 1 to kLargestRows
  uint32_t sequences = kDefaultSequences;  // slots, 1 to kLargestSequences
  uint32_t pooled_cols = 0;                // of state.pooled; 0: the program generates
  friend bool operator==(const StateLimits&, const StateLimits&) = default;
};

// Only the first logit_rows() rows of a pass may want logits, which bounds the memory for logits. They
// suffice for one row of each sequence, for all rows of a short pass, and for pieces of prompts with
// log-probabilities that are long enough to be read at about the speed of other prompts.
inline constexpr uint32_t kMostLogitRows = 1024;
static_assert(kMostLogitRows >= kLargestSequences);
// Kernels call it, too: they have no address of a constant, so std::min() gets a copy.
constexpr uint32_t logit_rows(const StateLimits& limits) {
  return std::min(limits.rows, uint32_t{kMostLogitRows});
}
// The first of them, which have a row for each sequence that generates.
inline constexpr uint32_t kLeastDrawingRows = 64;
constexpr uint32_t drawing_rows(const StateLimits& limits) {
  return std::min(limits.rows, std::max(limits.sequences, uint32_t{kLeastDrawingRows}));
}

}  // namespace serval
