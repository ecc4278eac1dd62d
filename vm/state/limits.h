// What a state block may hold: the limits that a program is compiled for.
#pragma once

#include <algorithm>
#include <cstdint>

namespace serval {

// Rows of a pass (tokens computed together) and sequences (slots of the state) are limits of their own: a
// pass may read one prompt in 2,048 rows, or one row each of 200 sequences.
inline constexpr uint32_t kLargestRows = 8192;
inline constexpr uint32_t kLargestSequences = 1024;
// Of a program for which nothing else is asked.
inline constexpr uint32_t kDefaultRows = 16;
inline constexpr uint32_t kDefaultSequences = 16;

struct StateLimits {
  uint32_t vocab = 0;                      // token ids are < vocab
  uint32_t max_context = 0;                // positions are < max_context
  uint32_t kv_blocks = 0;                  // entries of the block table are < kv_blocks
  uint32_t rows = kDefaultRows;            // of a pass, 1 to kLargestRows
  uint32_t sequences = kDefaultSequences;  // slots, 1 to kLargestSequences
  friend bool operator==(const StateLimits&, const StateLimits&) = default;
};

// The first rows of a pass: only they may want logits, so that there is no room for those of every token of a
// long prompt. One of each sequence, or as many as a short pass has.
inline constexpr uint32_t kLeastLogitRows = 64;
constexpr uint32_t logit_rows(const StateLimits& limits) {
  return std::min(limits.rows, std::max(limits.sequences, kLeastLogitRows));
}

}  // namespace serval
