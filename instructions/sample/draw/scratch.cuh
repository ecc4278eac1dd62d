// How `sample` divides up its group's scratch memory.
#pragma once

#include <cstdint>

#include "instructions/sample/rank/histogram.cuh"
#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/rank/sort.cuh"
#include "instructions/sample/row/buffered_quads.cuh"
#include "instructions/sample/row/penalties.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

// What a warp found in its units of a row (softmax.cuh).
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
  PenalisedTokens penalised;
  WarpSoftmax warp_softmax[kConsumerWarps];
  uint64_t warp_sums[kConsumerWarps];
  uint64_t found_before;
  uint32_t found_index;
  uint32_t unit_count;
  uint32_t token_count;
  uint32_t rank_count;
  uint32_t ranked_key;
};
static_assert(sizeof(Scratch) <= kScratchBytes);

}  // namespace serval::device::sample
