// Drafts of a sequence (vm/state/slots.h), defined once for host and GPU: which are right, and the drafts of
// the next pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "instructions/sample/random.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"
#include "vm/state/slots.h"

namespace serval {

// An earlier occurrence of a sequence's last tokens. No occurrence: length 0.
struct Ngram {
  uint32_t length = 0;  // tokens
  uint32_t end = 0;     // index of the token after it
};

// The occurrence with the largest key is used: the longest, and the last of those that are equally long.
// Sequences have fewer than 2^27 tokens.
inline constexpr uint32_t kNgramEndBits = 27;
static_assert(kMaxNgram < 1U << (32 - kNgramEndBits));
constexpr uint32_t ngram_key(const Ngram& ngram) {
  return ngram.length << kNgramEndBits | ngram.end;
}
constexpr Ngram ngram_of(uint32_t key) {
  return {key >> kNgramEndBits, key & ((1U << kNgramEndBits) - 1)};
}

// The n-gram that ends before index `end` of a sequence and whose last `equal` tokens are the sequence's
// last.
constexpr Ngram ngram_before(uint32_t end, uint32_t equal, const DraftRule& rule) {
  return equal > 0 && equal >= rule.ngram_min ? Ngram{equal, end} : Ngram{};
}
// Limit of `equal`.
constexpr uint32_t longest_ngram(uint32_t end, const DraftRule& rule) {
  return std::min(std::min(rule.ngram_max, uint32_t{kMaxNgram}), end);
}

// The n-gram to continue. With drafts by chance there is always one.
constexpr Ngram chosen_ngram(const DraftRule& rule, uint32_t length, const Ngram& found) {
  if (found.length > 0 || rule.accept_rate < 0 || length == 0) return found;
  return {1, length > 1 ? length - 1 : 0};
}

// Index of the token that is drafted for index `length` + `i`. Drafts that follow the sequence's last token
// repeat what lies between the n-gram and the end.
constexpr uint32_t draft_source(const Ngram& ngram, uint32_t length, uint32_t i) {
  return ngram.end + i % (length - ngram.end);
}

// Number of drafts that a pass can use if `row` has the sequence's last token: each has a row of its own, and
// positions are below the slot's end.
constexpr uint32_t room_for_drafts(const SequenceSlot& slot, const PassRow& row) {
  const uint32_t left = slot.end_position > row.position ? slot.end_position - row.position - 1 : 0;
  const uint32_t most = std::min(std::min(row.drafts, slot.drafts.most), left);
  return slot.drafts.pause == 0 && most >= slot.drafts.least ? most : 0;
}

// What decides whether a draft is right, besides the draft.
struct DraftTest {
  float accept_rate;
  uint32_t sequence;
  uint64_t seed;
};
constexpr DraftTest draft_test_of(const SequenceSlot& slot) {
  return {slot.drafts.accept_rate, slot.sequence, slot.seed};
}

// True if the draft `tried` at `position` is the token that was drawn in its place.
constexpr bool draft_is_right(const DraftTest& test, uint32_t position, int32_t tried, int32_t drawn) {
  if (test.accept_rate < 0) return tried == drawn;
  constexpr uint64_t kKey = 0x9E3779B97F4A7C15;  // other random numbers than those of the draws
  return uniform(test.seed ^ kKey, test.sequence, position) < test.accept_rate;
}

// Counts a pass in which `right` of `drafts` drafts were right: the n-th miss in a row is followed by 2^n - 1
// passes without drafts, at most 31.
constexpr void count_drafts(DraftRule& rule, uint32_t drafts, uint32_t right) {
  constexpr uint32_t kLongestPauseBits = 5;
  if (drafts == 0) {
    rule.pause -= rule.pause > 0 ? 1 : 0;
  } else if (right > 0) {
    rule.misses = 0;
  } else {
    rule.misses = std::min(rule.misses + 1, uint32_t{kLongestPauseBits});
    rule.pause = (1U << rule.misses) - 1;
  }
}

// The n-gram that the sequence's drafts continue.
constexpr Ngram find_ngram(const DraftRule& rule, std::span<const int32_t> tokens) {
  uint32_t best = 0;
  const auto length = static_cast<uint32_t>(tokens.size());
  for (uint32_t end = 1; end < length; ++end) {
    const uint32_t most = longest_ngram(end, rule);
    uint32_t equal = 0;
    while (equal < most && tokens[end - 1 - equal] == tokens[length - 1 - equal]) ++equal;
    best = std::max(best, ngram_key(ngram_before(end, equal, rule)));
  }
  return chosen_ngram(rule, length, ngram_of(best));
}

// Fills the draft rows that follow rows[0], which has the last of `tokens`. Rows without a draft become
// inactive. There are rows[0].drafts of them.
constexpr void write_drafts(const SequenceSlot& slot, std::span<const int32_t> tokens, PassRow* rows) {
  const PassRow& last = rows[0];
  const uint32_t room = last.active != 0 ? room_for_drafts(slot, last) : 0;
  const Ngram ngram = room > 0 ? find_ngram(slot.drafts, tokens) : Ngram{};
  const auto length = static_cast<uint32_t>(tokens.size());
  for (uint32_t i = 0; i < last.drafts; ++i) {
    PassRow& row = rows[1 + i];
    row = {.active = i < room && ngram.length > 0 ? 1U : 0U,
           .wants_logits = 1,
           .slot = last.slot,
           .position = last.position + 1 + i};
    if (row.active != 0) row.token = tokens[draft_source(ngram, length, i)];
  }
}

}  // namespace serval
