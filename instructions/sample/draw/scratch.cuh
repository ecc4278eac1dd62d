// Layout of `sample`'s scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instructions/sample/draw/parameters.cuh"
#include "instructions/sample/rank/histogram.cuh"
#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/rank/sort.cuh"
#include "instructions/sample/row/adjusted_tokens.cuh"
#include "instructions/sample/row/buffered_quads.cuh"
#include "vm/device/group.cuh"

namespace serval {
struct Sample;
}

namespace serval::device::sample {

// A warp's result over its units of a row (softmax.cuh).
struct WarpSoftmax {
  RankKey first;
  float sum;
};

struct Scratch {
  BufferedQuads buffered;
  Histogram histogram;
  UnsortedRanks unsorted;
  alignas(16) RankKey head[kSortedRunCapacity];
  alignas(16) RankKey window[kSortedRunCapacity];
  uint32_t units[kSortedRunCapacity];
  uint32_t tokens[kSortedRunCapacity];
  alignas(16) uint32_t thread_keys[kGroupThreads];
  WarpSoftmax warp_softmax[kConsumerWarps];
  uint64_t warp_sums[kConsumerWarps];
  uint64_t found_before;
  uint32_t found_index;
  uint32_t unit_count;
  uint32_t token_count;
  uint32_t rank_count;
  uint32_t ranked_key;
  // Kept here because the softmax needs the registers; each thread writes the same values.
  struct Asked {
    Parameters parameters;
    uint32_t row;
    const Sample* op;
  } asked;
};
static_assert(sizeof(Scratch) <= kScratchBytes);

// Layout of the same memory, without Asked, while a row is adjusted.
struct AdjustScratch {
  AdjustedTokens tokens;
  uint32_t saved;  // number of logits changed so far
};
static_assert(sizeof(AdjustScratch) <= offsetof(Scratch, asked));

}  // namespace serval::device::sample
