// Sums and searches by all threads of a group. The order of floating-point additions is fixed; integer sums
// do not depend on it.
#pragma once

#include <cstdint>

#include "instructions/sample/draw/scratch.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

// Sum over the warp's lanes; all of them get it.
template <class T>
__device__ __forceinline__ T sum_warp(T own) {
#pragma unroll
  for (uint32_t distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    own += __shfl_xor_sync(kAllLanes, own, distance);
  }
  return own;
}

// Sum over all threads; all of them get it. T has 8 bytes.
template <class T>
__device__ __forceinline__ T sum_all(const Group& group, Scratch& scratch, T own) {
  auto* warp_sums = reinterpret_cast<T*>(scratch.warp_sums);
  own = sum_warp(own);
  if (group.lane == 0) warp_sums[group.warp] = own;
  group.sync();
  T sum = 0;
#pragma unroll
  for (uint32_t warp = 0; warp < kConsumerWarps; ++warp) sum += warp_sums[warp];
  group.sync();  // before they are written again
  return sum;
}

struct RunningSum {
  uint64_t before;  // sum over earlier threads
  uint64_t total;
};

// The group must synchronise before the next collective function.
__device__ __forceinline__ RunningSum running_sum(const Group& group, Scratch& scratch, uint64_t own) {
  uint64_t through = own;  // over the warp's lanes up to this one
#pragma unroll
  for (uint32_t distance = 1; distance < kWarpThreads; distance *= 2) {
    const uint64_t other = __shfl_up_sync(kAllLanes, through, distance);
    if (group.lane >= distance) through += other;
  }
  if (group.lane == kWarpThreads - 1) scratch.warp_sums[group.warp] = through;
  group.sync();
  RunningSum sum = {through - own, 0};
#pragma unroll
  for (uint32_t warp = 0; warp < kConsumerWarps; ++warp) {
    const uint64_t of_warp = scratch.warp_sums[warp];
    sum.total += of_warp;
    if (warp < group.warp) sum.before += of_warp;
  }
  return sum;
}

struct Found {
  uint32_t index;   // the number of elements if there is none
  uint64_t before;  // weight of all before it
  uint64_t target;
};

// Finds the first of `size` elements at which the sum of weight(index), including this one, exceeds
// target(sum over all).
template <class Weight, class Target>
__device__ __forceinline__ Found first_beyond(const Group& group, Scratch& scratch, uint32_t size,
                                              Weight&& weight, Target&& target) {
  const uint32_t each = (size + kGroupThreads - 1) / kGroupThreads;
  const uint32_t begin = min(group.thread * each, size), end = min(begin + each, size);
  uint64_t own = 0;
#pragma unroll 1
  for (uint32_t i = begin; i < end; ++i) own += weight(i);
  auto [before, total] = running_sum(group, scratch, own);
  const uint64_t goal = target(total);
  if (before <= goal && goal - before < own) {  // true in one thread, unless goal >= total
    uint32_t i = begin;
#pragma unroll 1
    for (; i + 1 < end; ++i) {
      const uint64_t next = weight(i);
      if (goal - before < next) break;
      before += next;
    }
    scratch.found_index = i;
    scratch.found_before = before;
  }
  group.sync();
  if (goal >= total) return {size, total, goal};
  return {scratch.found_index, scratch.found_before, goal};
}

}  // namespace serval::device::sample
