// The sequence slots, a part of the state block: how each sequence samples, and what it has said.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr int kMaxStopTokens = 16;  // per sequence
inline constexpr int kHistoryTokens = 64;  // window of the repetition penalty

// Sampling parameters and history of one sequence.
struct SequenceSlot {
  uint64_t seed = 0;             // key of the random numbers, with `sequence` and the position
  uint32_t sequence = 0;         // distinguishes sequences that share a seed
  float temperature = 0;         // <= 0: greedy
  int32_t top_k = 0;             // <= 0: off
  float top_p = 1;               // >= 1: off
  float min_p = 0;               // <= 0: off
  float repetition_penalty = 1;  // 1: off
  uint32_t end_position = 0;     // positions are < end_position: a sequence ends when it would need that one
  uint32_t num_stop_tokens = 0;
  int32_t stop_tokens[kMaxStopTokens] = {};
  uint32_t history_length = 0;  // tokens seen so far; the ring holds the last min(length, kHistoryTokens)
  uint32_t reserved = 0;
  int32_t history[kHistoryTokens] = {};  // token t is at t mod kHistoryTokens
};
static_assert(sizeof(SequenceSlot) == 48 + 4 * kMaxStopTokens + 4 * kHistoryTokens);

}  // namespace serval
