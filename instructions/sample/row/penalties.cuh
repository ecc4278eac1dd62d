// The repetition penalty. At most kHistoryTokens logits of a row change, so sweeps over the row leave it out,
// and what they found is corrected for these tokens afterwards.
#pragma once

#include <cstdint>

#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/row/logits_row.cuh"
#include "vm/device/group.cuh"
#include "vm/ptx/ptx.cuh"
#include "vm/state/slots.h"

namespace serval::device::sample {

inline constexpr uint32_t kNoToken = 0xffffffff;

// The history's tokens, each once; kNoToken elsewhere.
struct PenalisedTokens {
  uint32_t token[kHistoryTokens];
  float raw[kHistoryTokens];        // logit as it came
  float penalised[kHistoryTokens];  // and after the penalty
};

class Penalties {
 public:
  // All threads of the group; `tokens` is in its scratch memory.
  __device__ __forceinline__ Penalties(const Group& group, const LogitsRow& row, const SequenceSlot* slot,
                                       float penalty, PenalisedTokens& tokens)
      : tokens_(tokens), any_(penalty != 1) {
    if (!any_) return;
    const uint32_t i = group.thread;
    const uint32_t token = i < kHistoryTokens ? history_token(row, slot, i) : kNoToken;
    if (i < kHistoryTokens) tokens.token[i] = token;
    group.sync();
    const bool again = repeats(token, i);
    group.sync();
    if (again) tokens.token[i] = kNoToken;
    if (token != kNoToken && !again) {
      const float logit = clean(row.logit(token));
      tokens.raw[i] = logit;
      tokens.penalised[i] = logit > 0 ? logit / penalty : logit * penalty;
    }
    group.sync();
  }

  // False if every logit stays as it is; the same for all threads.
  __device__ __forceinline__ bool any() const { return any_; }
  __device__ __forceinline__ bool contains(uint32_t token) const {
    if (!any_) return false;
    bool found = false;
#pragma unroll 8
    for (const uint32_t other : tokens_.token) found |= token == other;
    return found;
  }
  // Calls fn(token, raw, penalised) if there is a token for this thread; each token has one.
  template <class Fn>
  __device__ __forceinline__ void correct(uint32_t thread, Fn&& fn) const {
    if (!any_ || thread >= kHistoryTokens || tokens_.token[thread] == kNoToken) return;
    fn(tokens_.token[thread], tokens_.raw[thread], tokens_.penalised[thread]);
  }

 private:
  static __device__ __forceinline__ uint32_t history_token(const LogitsRow& row, const SequenceSlot* slot,
                                                           uint32_t i) {
    if (i >= ptx::load_relaxed(&slot->history_length)) return kNoToken;
    const uint32_t token = ptx::load_relaxed(reinterpret_cast<const uint32_t*>(&slot->history[i]));
    return token < row.vocab() ? token : kNoToken;  // negative ones are not, either
  }
  // True if the token is also at a place before `i`.
  __device__ __forceinline__ bool repeats(uint32_t token, uint32_t i) const {
    bool found = false;
    for (uint32_t j = 0; j < kHistoryTokens && j < i; ++j) found |= tokens_.token[j] == token;
    return found && i < kHistoryTokens;
  }

  PenalisedTokens& tokens_;
  bool any_;
};

}  // namespace serval::device::sample
