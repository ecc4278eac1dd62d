// Sorts some hundreds of rank keys in shared memory, the first candidate first.
#pragma once

#include <cstdint>

#include "instructions/sample/rank/rank_key.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

inline constexpr uint32_t kSortedRunCapacity = 512;
inline constexpr uint32_t kSortStep = 8;  // rank keys that are compared at the same time

struct UnsortedRanks {
  alignas(16) RankKey ranks[kSortedRunCapacity + kSortStep];
};

// 1 if `other` comes before `own`, else 0. Rank keys have less than 64 bits, so the difference's top bit is
// its sign.
__device__ __forceinline__ uint32_t is_ahead(RankKey other, RankKey own) {
  static_assert(kRankBits < 64);
  return static_cast<uint32_t>((own - other) >> 63);
}

// Sorts `from`'s first `size` keys into `to`. Each thread counts the keys before its own, which needs no
// barriers between steps and is fast for so few.
__device__ __forceinline__ void sort(const Group& group, UnsortedRanks& from, uint32_t size, RankKey* to) {
  if (group.thread < kSortStep) from.ranks[size + group.thread] = 0;  // after all candidates
  group.sync();
#pragma unroll 1
  for (uint32_t i = group.thread; i < size; i += kGroupThreads) {
    const RankKey own = from.ranks[i];
    uint32_t ahead = 0;
#pragma unroll 1
    for (uint32_t j = 0; j < size; j += kSortStep) {
      uint32_t of_step = 0;
#pragma unroll
      for (uint32_t k = 0; k < kSortStep; ++k) of_step += is_ahead(from.ranks[j + k], own);
      ahead += of_step;
    }
    to[ahead] = own;
  }
  group.sync();
}

}  // namespace serval::device::sample
