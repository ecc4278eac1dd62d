// Adjustments of a sequence's logits besides its slot, a part of the state block: biases of tokens, and the
// token history for penalties. The host fills in what a slot's extras need (SlotExtra, vm/state/slots.h);
// `advance` appends the tokens of a launch to the history. Everything else is never read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace serval {

inline constexpr uint32_t kMaxLogitBiases = 1024;  // of a sequence

struct TokenBias {
  int32_t token = 0;
  float bias = 0;  // added to its logit
};

// Bytes of one sequence: its biases, then its tokens from position 0 on, as many as it may have.
constexpr size_t adjustment_bytes(uint32_t max_context) {
  constexpr size_t kRound = 16;
  const size_t bytes = kMaxLogitBiases * sizeof(TokenBias) + max_context * sizeof(int32_t);
  return (bytes + kRound - 1) / kRound * kRound;
}
inline constexpr size_t kHistoryOffset = kMaxLogitBiases * sizeof(TokenBias);

// The part in memory: adjustment_bytes(max_context) for each slot.
template <class Byte>
struct AdjustmentTable {
  Byte* memory = nullptr;
  uint32_t max_context = 0;

  constexpr Byte* of(uint32_t slot) const { return memory + slot * adjustment_bytes(max_context); }
};

}  // namespace serval
