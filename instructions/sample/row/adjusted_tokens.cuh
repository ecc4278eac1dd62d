// The tokens of a row that are adjusted, and how: a hash table in shared memory, indexed by token.
#pragma once

#include <cstdint>

#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/row/adjust.h"
#include "vm/device/group.cuh"

namespace serval::device::sample {

inline constexpr uint32_t kNoToken = 0xffffffff;
inline constexpr uint32_t kAdjustedEntries = 4096;

// Bits of `uses` besides the number of times that a token was generated.
inline constexpr uint32_t kRepeats = 1U << 31;
inline constexpr uint32_t kBanned = 1U << 30;
inline constexpr uint32_t kCountMask = kBanned - 1;

struct AdjustedTokens {
  uint32_t token[kAdjustedEntries];  // kNoToken: none
  uint32_t uses[kAdjustedEntries];
  float bias[kAdjustedEntries];

  // Each thread clears its part.
  __device__ __forceinline__ void clear(uint32_t thread) {
#pragma unroll 4
    for (uint32_t i = thread; i < kAdjustedEntries; i += kGroupThreads) {
      token[i] = kNoToken;
      uses[i] = 0;
      bias[i] = 0;
    }
  }
  // The token's entry; adds one if it has none. Callable by any threads; the table must have room.
  __device__ __forceinline__ uint32_t entry_of(uint32_t id) {
    uint32_t i = id % kAdjustedEntries;
#pragma unroll 1
    for (;; i = (i + 1) % kAdjustedEntries) {
      const uint32_t before = atomicCAS(&token[i], kNoToken, id);
      if (before == kNoToken || before == id) return i;
    }
  }
};

// The penalties of a SequenceSlot.
struct PenaltyFactors {
  float repetition, frequency, presence;

  __device__ __forceinline__ float adjusted(float logit, float bias, uint32_t uses) const {
    if ((uses & kBanned) != 0) return kMinusInfinity;
    logit += bias;
    if ((uses & kRepeats) != 0) logit = repetition_penalised(logit, repetition);
    const uint32_t count = uses & kCountMask;
    return count > 0 ? count_penalised(logit, count, frequency, presence) : logit;
  }
};

}  // namespace serval::device::sample
