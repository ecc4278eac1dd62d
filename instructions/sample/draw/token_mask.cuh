// Applies a sequence's mask to a row (vm/state/masks.h): logits of tokens that it does not allow become
// -infinity, in place and permanently, because the next pass writes the row anew. The row is then sampled as
// usual. Rows without a mask skip this code.
#pragma once

#include <cmath>
#include <cstdint>

#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/row/logits_row.cuh"
#include "instructions/sample/row/unit_logits.cuh"
#include "vm/device/group.cuh"
#include "vm/ptx/ptx.cuh"
#include "vm/state/masks.h"

namespace serval::device::sample {

// All threads of the group call each function together.
class TokenMask {
 public:
  // `words`: [mask_words(row.vocab())] bits, then the position that they are for. The host writes them.
  __device__ __forceinline__ TokenMask(const Group& group, const LogitsRow& row, const UnitLogits& units,
                                       const uint32_t* words)
      : group_(group), row_(row), units_(units), words_(words) {}

  // Returns when the host has written the mask of the token at `position`; leaves the kernel if the launch is
  // given up. Only thread 0 waits; the others wait at the first sync() of apply(), which must follow.
  __device__ __forceinline__ void wait_for(uint32_t position) const {
    if (group_.thread != 0) return;
    const uint32_t* of_mask = words_ + mask_words(row_.vocab());
    while (!mask_is_for(ptx::load_acquire_system(of_mask), position)) exit_if_requested(group_.exit);
  }
  // A warp processes 32 words at a time, in order; each lane has the token of its bit.
  __device__ __forceinline__ void apply() const {
    static_assert(kTokensOfMaskWord == kWarpThreads && kWarpThreads % kUnitRows == 0);
    const uint32_t count = mask_words(row_.vocab());
    group_.sync();  // earlier reads of the row are over, and the mask has arrived
#pragma unroll 1
    for (uint32_t first = group_.warp * kWarpThreads; first < count; first += kGroupThreads) {
      const uint32_t own = first + group_.lane;
      const uint32_t words = own < count ? ptx::load_relaxed_system(words_ + own) : kAllAllowed;
#pragma unroll 1
      for (uint32_t i = 0; i < kWarpThreads; i += kAtOnce) apply(words, first, i);
    }
    group_.sync();
  }

 private:
  static constexpr uint32_t kAllAllowed = 0xffffffff;
  static constexpr uint32_t kAtOnce = 16;  // words whose logits are in flight at the same time

  // Words [first + begin, first + begin + kAtOnce); lane i has word first + i.
  __device__ __forceinline__ void apply(uint32_t words, uint32_t first, uint32_t begin) const {
    float allowed[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t word = __shfl_sync(kAllLanes, words, begin + i), token = token_of(first + begin + i);
      allowed[i] = kMinusInfinity;
      if (word != kAllAllowed && is_allowed(word) && token < row_.vocab())
        allowed[i] = clean(row_.logit(token));
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t word = __shfl_sync(kAllLanes, words, begin + i), token = token_of(first + begin + i);
      if (word == kAllAllowed) continue;  // uniform in the warp
      if (!is_allowed(word) && token < row_.vocab()) row_.set_logit(token, kMinusInfinity);
      const float largest = largest_of_unit(allowed[i]);
      if (token % kUnitRows == 0 && token < row_.vocab()) units_.set_largest(token / kUnitRows, largest);
    }
  }

  __device__ __forceinline__ uint32_t token_of(uint32_t word) const {
    return word * kTokensOfMaskWord + group_.lane;
  }
  __device__ __forceinline__ bool is_allowed(uint32_t word) const {
    return (word >> group_.lane & 1) != 0;
  }
  // Largest over the 8 lanes of a unit's tokens.
  static __device__ __forceinline__ float largest_of_unit(float own) {
#pragma unroll
    for (uint32_t distance = kUnitRows / 2; distance > 0; distance /= 2)
      own = fmaxf(own, __shfl_xor_sync(kAllLanes, own, distance));
    return own;
  }

  const Group& group_;
  const LogitsRow& row_;
  const UnitLogits& units_;
  const uint32_t* words_;
};

}  // namespace serval::device::sample
