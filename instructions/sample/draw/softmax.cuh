// The first candidate of the original row, and its sum of exponentials, from the row's units.
//
// Units' sums are of exp(logit) without subtracting a maximum: float can represent them as long as logits are
// within about ±80. If that does not suffice, or a logit is not finite, the sum is zero, infinite or NaN;
// then it is computed again from the logits, relative to the largest one. That sum is NaN only if a logit is
// not finite.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "instructions/common/unit_softmax.h"
#include "instructions/sample/draw/collectives.cuh"
#include "instructions/sample/draw/scratch.cuh"
#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/row/buffered_quads.cuh"
#include "instructions/sample/row/logits_row.cuh"
#include "instructions/sample/row/unit_logits.cuh"
#include "vm/device/group.cuh"
#include "vm/ptx/math.cuh"

namespace serval::device::sample {

// With a smaller largest logit, exponentials that still matter would underflow.
inline constexpr float kLeastLargest = -60;

// One thread's result over its units.
struct ThreadSoftmax {
  float largest = kMinusInfinity;
  uint32_t unit = 0;  // the first unit with that logit
  float sum_of_unit = 0;
  float sum = 0;

  // The first token with the largest logit.
  __device__ __forceinline__ uint32_t token() const {
    return unit * kUnitRows + (__float_as_uint(sum_of_unit) & kFirstOfUnitMask);
  }

  __device__ __forceinline__ void add(uint32_t index, const UnitSoftmax& of_unit) {
    const bool larger = of_unit.largest > largest;
    largest = larger ? of_unit.largest : largest;
    unit = larger ? index : unit;
    sum_of_unit = larger ? of_unit.sum : sum_of_unit;
    sum += of_unit.sum;
  }
};

// Result for a whole row.
struct Softmax {
  RankKey first;         // the first candidate, before any penalty
  float thread_largest;  // largest of this thread's logits
  float sum;             // of exp(logit - largest); NaN if a logit is NaN or infinite
};

// The warp's first candidate; all lanes get it.
__device__ __forceinline__ RankKey first_of_warp(const ThreadSoftmax& thread) {
  const uint32_t key = key_of(thread.largest);
  const uint32_t largest = __reduce_max_sync(kAllLanes, key);
  const uint32_t token = __reduce_min_sync(kAllLanes, key == largest ? thread.token() : UINT32_MAX);
  return largest == kMinusInfinityKey ? kLastRank : rank_of_key(largest, token);
}

// Computes the sum again, for rows with logits that are not finite or very far from 0.
__device__ __forceinline__ float careful_sum(const Group& group, Scratch& scratch, const LogitsRow& row,
                                             float largest) {
  double own = 0;
  for_each_quad(row, group.thread, scratch.buffered, [&](uint32_t token, const LogitQuad& quad) {
#pragma unroll
    for (uint32_t i = 0; i < kQuadLogits; ++i) {
      const float logit = quad.logit[i];
      const float share = share_if_finite(logit, expf(shortfall(clean(logit), largest)));
      own += token + i < row.vocab() ? share : 0;
    }
  });
  return static_cast<float>(sum_all(group, scratch, own));
}

// `row_of` makes the LogitsRow only when it is needed, so that it takes no registers before.
template <class RowOf>
__device__ __forceinline__ Softmax softmax(const Group& group, Scratch& scratch, const UnitLogits& units,
                                           RowOf&& row_of) {
  ThreadSoftmax thread;
  units.for_each(group.thread, [&](uint32_t unit, const UnitSoftmax& of_unit) { thread.add(unit, of_unit); });
  const float warp_sum = sum_warp(thread.sum);
  const RankKey warp_first = first_of_warp(thread);
  if (group.lane == 0) scratch.warp_softmax[group.warp] = {warp_first, warp_sum};
  group.sync();
  Softmax s = {kLastRank, thread.largest, 0};
#pragma unroll
  for (const WarpSoftmax& w : scratch.warp_softmax) {
    s.first = max(s.first, w.first);
    s.sum += w.sum;
  }
  const float largest = logit_of(s.first);
  if (largest == kMinusInfinity) s.first = rank_of(largest, 0);  // all are equal
  s.sum *= ptx::exp(-largest);
  const bool in_range = largest >= kLeastLargest && s.sum > 0 && s.sum <= FLT_MAX;
  if (!in_range) s.sum = careful_sum(group, scratch, row_of(), largest);
  return s;
}

}  // namespace serval::device::sample
