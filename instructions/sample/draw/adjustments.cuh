// Biases, penalties and banned stop tokens. They change the row in place, which is then sampled as usual; the
// original logits are saved and restored afterwards. Rows without adjustments skip this code.
#pragma once

#include <cstdint>

#include "instructions/common/unit_softmax.h"
#include "instructions/sample/draw/scratch.cuh"
#include "instructions/sample/row/adjusted_tokens.cuh"
#include "instructions/sample/row/logits_row.cuh"
#include "instructions/sample/row/unit_logits.cuh"
#include "vm/device/group.cuh"
#include "vm/ptx/ptx.cuh"
#include "vm/state/adjustments.h"
#include "vm/state/slots.h"

namespace serval::device::sample {

// Loads the slot's fields for adjustments; the others keep their defaults. Other SMs write the slot.
__device__ __forceinline__ SequenceSlot load_extras(const SequenceSlot* slot) {
  const auto word = [](const auto* field) {
    return ptx::load_relaxed(reinterpret_cast<const uint32_t*>(field));
  };
  SequenceSlot s;
  s.num_stop_tokens = word(&slot->num_stop_tokens);
  s.history_length = word(&slot->history_length);
  s.repetition_penalty = ptx::load_relaxed(&slot->repetition_penalty);
  s.repeat_last_n = static_cast<int32_t>(word(&slot->repeat_last_n));
  s.presence_penalty = ptx::load_relaxed(&slot->presence_penalty);
  s.frequency_penalty = ptx::load_relaxed(&slot->frequency_penalty);
  s.prompt_length = word(&slot->prompt_length);
  s.first_stop = word(&slot->first_stop);
  s.num_biases = word(&slot->num_biases);
  return s;
}

// Location of a sequence's adjustments.
struct AdjustmentSource {
  const SequenceSlot* slot;
  const std::byte* table;  // the slot's entry in AdjustmentTable
  uint32_t max_context;
  uint32_t position;  // of the token to be drawn
};

// All threads of the group call each function together.
class Adjustments {
 public:
  // `saved`: [tokens of a row that may be adjusted] token and logit.
  __device__ __forceinline__ Adjustments(const Group& group, const LogitsRow& row, const UnitLogits& units,
                                         float2* saved)
      : group_(group), row_(row), units_(units), saved_(saved) {}

  // Returns the number of changed logits.
  __device__ __forceinline__ uint32_t apply(AdjustScratch& scratch, const AdjustmentSource& from) const {
    const SequenceSlot slot = load_extras(from.slot);
    const uint32_t end = min(slot.history_length, from.max_context);
    const uint32_t repeated = min(repetition_begin(slot), end), counted = min(generation_begin(slot), end);
    const uint32_t begin = min(repeated, counted);
    const uint32_t stops =
        from.position < slot.first_stop ? min(slot.num_stop_tokens, uint32_t{kMaxStopTokens}) : 0;
    // All tokens at once if the table has room for them; otherwise as many ids at a time as it has entries.
    static_assert(kMaxAtOnce + kMaxLogitBiases + kMaxStopTokens <= kAdjustedEntries);
    const uint32_t step = end - begin <= kMaxAtOnce ? row_.vocab() : kAdjustedEntries;
    group_.sync();  // the memory's previous use is over
    if (group_.thread == 0) scratch.saved = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < row_.vocab(); first += step) {
      const uint32_t last = min(first + step, row_.vocab()) - 1;
      scratch.tokens.clear(group_.thread);
      group_.sync();
      add_biases(scratch.tokens, from, slot.num_biases, first, last);
      add_history(scratch.tokens, from, {begin, repeated, counted, end}, first, last);
      if (group_.thread < stops) {
        const uint32_t token = word(&from.slot->stop_tokens[group_.thread]);
        if (token >= first && token <= last) add(scratch.tokens, token, kBanned);
      }
      group_.sync();
      change_logits(scratch, {slot.repetition_penalty, slot.frequency_penalty, slot.presence_penalty});
      group_.sync();
    }
    const uint32_t count = scratch.saved;
    refresh_units(count);
    group_.sync();
    return count;
  }

  // Restores the row.
  __device__ __forceinline__ void undo(uint32_t count) const {
    group_.sync();
#pragma unroll 1
    for (uint32_t i = group_.thread; i < count; i += kGroupThreads) {
      const float2 one = ptx::load_relaxed(saved_ + i);
      row_.set_logit(__float_as_uint(one.x), one.y);
    }
    group_.sync();
    refresh_units(count);
  }

 private:
  static constexpr uint32_t kMaxAtOnce = 2048;  // tokens of the history

  // Positions of tokens: repeated ones are [repeated, end), counted ones [counted, end).
  struct History {
    uint32_t begin, repeated, counted, end;
  };

  template <class T>
  static __device__ __forceinline__ uint32_t word(const T* from) {
    return ptx::load_relaxed(reinterpret_cast<const uint32_t*>(from));
  }
  static __device__ __forceinline__ void add(AdjustedTokens& tokens, uint32_t token, uint32_t use) {
    atomicOr(&tokens.uses[tokens.entry_of(token)], use);
  }

  // Adds biases of tokens from `first` to `last`; ids outside the vocabulary are not in any such range.
  __device__ __forceinline__ void add_biases(AdjustedTokens& tokens, const AdjustmentSource& from,
                                             uint32_t count, uint32_t first, uint32_t last) const {
    const auto* biases = reinterpret_cast<const TokenBias*>(from.table);
#pragma unroll 1
    for (uint32_t i = group_.thread; i < min(count, kMaxLogitBiases); i += kGroupThreads) {
      const uint32_t token = word(&biases[i].token);
      if (token >= first && token <= last)
        tokens.bias[tokens.entry_of(token)] = ptx::load_relaxed(&biases[i].bias);
    }
  }
  __device__ __forceinline__ void add_history(AdjustedTokens& tokens, const AdjustmentSource& from,
                                              const History& history, uint32_t first, uint32_t last) const {
    const auto* ids = reinterpret_cast<const int32_t*>(from.table + kHistoryOffset);
#pragma unroll 1
    for (uint32_t p = history.begin + group_.thread; p < history.end; p += kGroupThreads) {
      const uint32_t token = word(ids + p);
      if (token < first || token > last) continue;
      const uint32_t entry = tokens.entry_of(token);
      if (p >= history.repeated) atomicOr(&tokens.uses[entry], kRepeats);
      if (p >= history.counted) atomicAdd(&tokens.uses[entry], 1U);
    }
  }

  __device__ __forceinline__ void change_logits(AdjustScratch& scratch, const PenaltyFactors& factors) const {
    const AdjustedTokens& tokens = scratch.tokens;
#pragma unroll 1
    for (uint32_t i = group_.thread; i < kAdjustedEntries; i += kGroupThreads) {
      const uint32_t token = tokens.token[i];
      if (token == kNoToken) continue;
      const float logit = row_.logit(token);
      ptx::store_relaxed(saved_ + atomicAdd(&scratch.saved, 1U), float2{__uint_as_float(token), logit});
      row_.set_logit(token, factors.adjusted(clean(logit), tokens.bias[i], tokens.uses[i]));
    }
  }

  // Updates the largest logits of the tokens' units. Threads with the same unit store the same value.
  __device__ __forceinline__ void refresh_units(uint32_t count) const {
#pragma unroll 1
    for (uint32_t i = group_.thread; i < count; i += kGroupThreads) {
      const uint32_t unit = __float_as_uint(ptx::load_relaxed(saved_ + i).x) / kUnitRows;
      float largest = kMinusInfinity;
#pragma unroll
      for (uint32_t j = 0; j < kUnitRows; ++j) {
        const uint32_t token = unit * kUnitRows + j;
        const float logit = token < row_.vocab() ? row_.logit(token) : kMinusInfinity;
        largest = logit > largest ? logit : largest;  // the first one, as in unit_softmax(): -0 may stay
      }
      units_.set_largest(unit, largest);
    }
  }

  const Group& group_;
  const LogitsRow& row_;
  const UnitLogits& units_;
  float2* saved_;
};

}  // namespace serval::device::sample
