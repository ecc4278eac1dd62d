// Tokens that a sweep over the row selects, and their rank keys.
#pragma once

#include <cstdint>

#include "instructions/sample/draw/scratch.cuh"
#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/row/logits_row.cuh"
#include "instructions/sample/row/unit_logits.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

// The group's list, in any order; at most kSortedRunCapacity tokens.
class TokenList {
 public:
  __device__ __forceinline__ TokenList(const Group& group, Scratch& scratch)
      : group_(group), scratch_(scratch) {
    if (group.thread == 0) scratch.unit_count = scratch.token_count = scratch.rank_count = 0;
    group.sync();
  }

  __device__ __forceinline__ void add(uint32_t token) {
    const uint32_t i = atomicAdd(&scratch_.token_count, 1U);
    if (i < kSortedRunCapacity) scratch_.tokens[i] = token;
  }
  // True if more tokens were added than the list holds.
  __device__ __forceinline__ bool overflows() const {
    return *static_cast<const volatile uint32_t*>(&scratch_.token_count) > kSortedRunCapacity;
  }

  // Writes the tokens' rank keys that lie in `range` to Scratch::unsorted. Returns their number, or more than
  // kSortedRunCapacity if there are too many. Called by all threads.
  __device__ __forceinline__ uint32_t to_ranks(const LogitsRow& row, RankRange range) {
    group_.sync();
    const uint32_t tokens = scratch_.token_count;
    if (tokens > kSortedRunCapacity) return tokens;
#pragma unroll 1
    for (uint32_t i = group_.thread; i < tokens; i += kGroupThreads) {
      const uint32_t token = scratch_.tokens[i];
      add_rank(rank_of(clean(row.logit(token)), token), range);
    }
    group_.sync();
    return scratch_.rank_count;
  }

 private:
  __device__ __forceinline__ void add_rank(RankKey key, RankRange range) {
    if (key < range.last || key > range.first) return;
    const uint32_t i = atomicAdd(&scratch_.rank_count, 1U);
    if (i < kSortedRunCapacity) scratch_.unsorted.ranks[i] = key;
  }

  const Group& group_;
  Scratch& scratch_;
};

// Lists the tokens whose original logits are at least `least`: first the units that contain one, then 8 lanes
// examine each unit. Returns false if there are too many. Called by all threads.
__device__ __forceinline__ bool list_reaching(const Group& group, Scratch& scratch, const LogitsRow& row,
                                              const UnitLogits& units, float least, TokenList& list) {
#pragma unroll 1
  for (uint32_t first = group.thread; first < units.count(); first += kReachingAtOnce * kGroupThreads) {
    uint32_t reaching = units.reaching(first, least);
#pragma unroll 1
    for (; reaching != 0; reaching &= reaching - 1) {
      const uint32_t i = atomicAdd(&scratch.unit_count, 1U);
      const auto in_batch = static_cast<uint32_t>(__ffs(static_cast<int>(reaching))) - 1;
      if (i < kSortedRunCapacity) scratch.units[i] = first + in_batch * kGroupThreads;
    }
  }
  group.sync();
  const uint32_t count = scratch.unit_count;
  if (count > kSortedRunCapacity) return false;
#pragma unroll 1
  for (uint32_t i = group.thread / kUnitRows; i < count; i += kGroupThreads / kUnitRows) {
    const uint32_t token = scratch.units[i] * kUnitRows + group.thread % kUnitRows;
    if (token < row.vocab() && clean(row.logit(token)) >= least) list.add(token);
  }
  return true;
}

}  // namespace serval::device::sample
