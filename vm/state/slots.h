// The sequence slots, a part of the state block: each sequence's sampling parameters and end.
#pragma once

#include <algorithm>
#include <cstdint>

namespace serval {

inline constexpr int kMaxStopTokens = 16;       // per sequence
inline constexpr uint32_t kMaxTopTokens = 20;   // tokens whose log-probabilities are listed
inline constexpr int kDefaultRepeatLastN = 64;  // llama.cpp's

// Options that few sequences use, as bits of SequenceSlot::extras. The fields of an option are not read if
// its bit is 0.
enum SlotExtra : uint32_t {
  kAdjustsLogits = 1,  // penalties, biases or banned stop tokens
  kKeepsHistory = 2,   // penalties or drafts: the tokens are in AdjustmentTable (vm/state/adjustments.h)
  kListsTop = 4,       // the likeliest tokens (vm/state/output.h)
  kMasksTokens = 8,    // draws only tokens of its mask (vm/state/masks.h)
};

inline constexpr uint32_t kMaxDrafts = 15;  // of a sequence in a pass
inline constexpr uint32_t kMaxNgram = 16;   // tokens

// Drafts of one sequence: tokens that are expected to follow its last one, which a pass evaluates together
// with it. A drafted token is right if the model draws this very token in its place, so the sequence's tokens
// are those that it has without drafts. They continue the latest earlier occurrence of the sequence's last
// tokens (an n-gram), the longest that occurs.
struct DraftRule {
  uint32_t most = 0;       // in a pass, up to kMaxDrafts; 0: none
  uint32_t least = 0;      // fewer are not used
  uint32_t ngram_min = 0;  // lengths of n-grams, 1 to kMaxNgram
  uint32_t ngram_max = 0;
  // Below 0: drafts are right as said above. Otherwise a draft counts as right with this probability,
  // whatever it is, and needs no n-gram: to measure speed with weights that make no text.
  float accept_rate = -1;
  // Progress within a launch: after passes with drafts none of which was right, passes without.
  uint32_t misses = 0;  // such passes since the last right draft
  uint32_t pause = 0;   // passes without drafts that are left
};

// Sampling parameters and progress of one sequence.
struct SequenceSlot {
  uint64_t seed = 0;          // key of the random numbers, with `sequence` and the position
  uint32_t sequence = 0;      // distinguishes sequences that share a seed
  float temperature = 0;      // <= 0: greedy
  int32_t top_k = 0;          // <= 0: off
  float top_p = 1;            // >= 1: off
  float min_p = 0;            // <= 0: off
  uint32_t extras = 0;        // extras_of(slot)
  uint32_t end_position = 0;  // positions are < end_position: a sequence ends when it would need that one
  uint32_t num_stop_tokens = 0;
  int32_t stop_tokens[kMaxStopTokens] = {};
  uint32_t history_length = 0;  // tokens seen so far

  // Extras.
  float repetition_penalty = 1;                 // 1: off
  int32_t repeat_last_n = kDefaultRepeatLastN;  // tokens that it looks at; 0: none, < 0: all
  float presence_penalty = 0;                   // 0: off; these two apply to generated tokens
  float frequency_penalty = 0;                  // 0: off
  uint32_t prompt_length = 0;                   // generated tokens begin at this position
  uint32_t first_stop = 0;                      // at positions before this one, stop tokens are not drawn
  uint32_t num_biases = 0;                      // up to kMaxLogitBiases, of different tokens
  uint32_t num_top = 0;                         // tokens to list, up to kMaxTopTokens
  uint32_t masked = 0;                          // 1: its mask says which tokens may be drawn
  DraftRule drafts = {};                        // not together with penalties, num_top or masked
  uint32_t reserved = 0;
};
static_assert(sizeof(SequenceSlot) == 112 + 4 * kMaxStopTokens);

// The tokens that a penalty considers: [begin, history_length).
constexpr uint32_t repetition_begin(const SequenceSlot& slot) {
  if (slot.repetition_penalty == 1) return slot.history_length;
  if (slot.repeat_last_n < 0) return 0;
  return slot.history_length - std::min(slot.history_length, static_cast<uint32_t>(slot.repeat_last_n));
}
constexpr uint32_t generation_begin(const SequenceSlot& slot) {
  const bool counts = slot.presence_penalty != 0 || slot.frequency_penalty != 0;
  return counts ? std::min(slot.prompt_length, slot.history_length) : slot.history_length;
}

constexpr bool has_penalties(const SequenceSlot& slot) {
  const bool repeats = slot.repetition_penalty != 1 && slot.repeat_last_n != 0;
  return repeats || slot.presence_penalty != 0 || slot.frequency_penalty != 0;
}

constexpr uint32_t extras_of(const SequenceSlot& slot) {
  const bool penalties = has_penalties(slot);
  const bool bans = slot.first_stop > slot.prompt_length && slot.num_stop_tokens > 0;
  uint32_t extras = slot.num_top > 0 ? uint32_t{kListsTop} : 0;
  if (slot.masked != 0) extras |= kMasksTokens;
  if (penalties || slot.drafts.most > 0) extras |= kKeepsHistory;
  if (penalties || bans || slot.num_biases > 0) extras |= kAdjustsLogits;
  return extras;
}

}  // namespace serval
