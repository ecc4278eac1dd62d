// The search for an earlier occurrence of a sequence's last tokens (drafts.h), by all threads of a group.
#pragma once

#include <cstdint>

#include "instructions/advance/drafts.h"
#include "vm/device/group.cuh"
#include "vm/ptx/ptx.cuh"
#include "vm/state/slots.h"

namespace serval::device {

struct NgramScratch {
  uint32_t suffix[kMaxNgram];     // the sequence's last tokens, the last one first
  uint32_t best[kConsumerWarps];  // keys of n-grams
};

// Number of tokens before `end` that equal the last ones, up to `most`, which is at least 1. The token before
// `end` does.
__device__ __forceinline__ uint32_t equal_tokens(const NgramScratch& scratch, const uint32_t* tokens,
                                                 uint32_t end, uint32_t most) {
  constexpr uint32_t kAtOnce = 4;  // loads under way
  uint32_t equal = 1;
#pragma unroll 1
  while (equal < most) {
    uint32_t same = 0;
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t at = equal + i;
      const bool is_same = at < most && ptx::load_relaxed(tokens + (end - 1 - at)) == scratch.suffix[at];
      same |= (is_same ? 1u : 0u) << i;
    }
    const auto run = static_cast<uint32_t>(__ffs(static_cast<int>(~same))) - 1;
    equal += run;
    if (run < kAtOnce) break;
  }
  return equal;
}

// As find_ngram() of drafts.h without chosen_ngram(). `tokens`: [length], aligned to 16 bytes. All threads of
// the group call it, and all get the result.
__device__ __forceinline__ Ngram find_ngram(const Group& group, NgramScratch& scratch, const uint32_t* tokens,
                                            uint32_t length, const DraftRule& rule) {
  if (group.thread < kMaxNgram)
    scratch.suffix[group.thread] =
        group.thread < length ? ptx::load_relaxed(tokens + (length - 1 - group.thread)) : 0;
  group.sync();
  constexpr uint32_t kQuad = sizeof(uint4) / sizeof(uint32_t), kQuads = 8;  // a thread's loads under way
  const auto* quads = reinterpret_cast<const uint4*>(tokens);
  const uint32_t last = scratch.suffix[0];
  const uint32_t searched = length > 0 ? length - 1 : 0;  // tokens that an n-gram may end with
  const uint32_t count = (searched + kQuad - 1) / kQuad;
  uint32_t best = 0;
#pragma unroll 1
  for (uint32_t first = group.thread; first < count; first += kQuads * kGroupThreads) {
    uint4 found[kQuads];
#pragma unroll
    for (uint32_t i = 0; i < kQuads; ++i)
      found[i] = ptx::load_relaxed(quads + min(first + i * kGroupThreads, count - 1));
    uint32_t same = 0;  // bit kQuad × i + j: token j of quad i
#pragma unroll
    for (uint32_t i = 0; i < kQuads; ++i) {
      if (first + i * kGroupThreads >= count) break;
      const uint32_t bits = (found[i].x == last ? 1u : 0u) | (found[i].y == last ? 2u : 0u) |
                            (found[i].z == last ? 4u : 0u) | (found[i].w == last ? 8u : 0u);
      same |= bits << kQuad * i;
    }
#pragma unroll 1
    for (; same != 0; same &= same - 1) {
      const auto bit = static_cast<uint32_t>(__ffs(static_cast<int>(same))) - 1;
      const uint32_t end = (first + bit / kQuad * kGroupThreads) * kQuad + bit % kQuad + 1;
      if (end > searched) break;
      const uint32_t equal = equal_tokens(scratch, tokens, end, longest_ngram(end, rule));
      best = max(best, ngram_key(ngram_before(end, equal, rule)));
    }
  }
  best = __reduce_max_sync(~0u, best);
  if (group.lane == 0) scratch.best[group.warp] = best;
  group.sync();
#pragma unroll
  for (uint32_t warp = 0; warp < kConsumerWarps; ++warp) best = max(best, scratch.best[warp]);
  return ngram_of(best);
}

}  // namespace serval::device
