// One pass over a row as it came finds the first of its candidates and the sum of exponentials.
//
// Exponents are taken relative to token 0, whatever its logit: float holds a sum of numbers that are e^80
// times larger or smaller just as well. Where that is not enough, or a logit is no number, the sum comes out
// as zero, infinite or NaN, and is taken again, relative to the largest logit.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "instructions/sample/collectives.cuh"
#include "instructions/sample/logits_row.cuh"
#include "instructions/sample/order.cuh"
#include "instructions/sample/scratch.cuh"
#include "instructions/sample/staged.cuh"
#include "instructions/sample/stream.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

inline constexpr float kLog2E = 1.44269504F;

// The hardware's 2^x; 0 instead of subnormal numbers.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What one thread finds in its part of the row: a visitor of stream().
class ThreadSoftmax {
 public:
  // `reference`: in units of log2, subtracted from exponents.
  __device__ __forceinline__ explicit ThreadSoftmax(float reference) : reference_(reference) {}

  // Several chains of each operation, because each waits for the one before it.
  __device__ __forceinline__ void add(uint32_t, const LogitQuad& quad) {
#pragma unroll
    for (uint32_t i = 0; i < kQuadLogits; ++i) {
      block_largest_[i] = fmaxf(block_largest_[i], quad.logit[i]);
      block_sum_[i] += power(quad.logit[i]);
    }
  }
  __device__ __forceinline__ void end_block(uint32_t first_quad) {
    const float block_largest =
        fmaxf(fmaxf(block_largest_[0], block_largest_[1]), fmaxf(block_largest_[2], block_largest_[3]));
    if (block_largest > largest_ || (block_largest == largest_ && first_quad < first_quad_)) {
      largest_ = block_largest;
      first_quad_ = first_quad;
    }
    sum_ += (block_sum_[0] + block_sum_[1]) + (block_sum_[2] + block_sum_[3]);
#pragma unroll
    for (uint32_t i = 0; i < kQuadLogits; ++i) {
      block_largest_[i] = kMinusInfinity;
      block_sum_[i] = 0;
    }
  }
  // A logit that is in no block.
  __device__ __forceinline__ void add_to_sum(float logit) {
    sum_ += power(logit);
  }

  // Of the logits in blocks; never NaN.
  __device__ __forceinline__ float largest() const {
    return largest_;
  }
  // As end_block() got it, of the first block with the largest logit.
  __device__ __forceinline__ uint32_t first_quad() const {
    return first_quad_;
  }
  // Of 2^(log2(e) logit - reference).
  __device__ __forceinline__ double sum() const {
    return sum_;
  }

 private:
  __device__ __forceinline__ float power(float logit) const {
    return fast_exp2(fmaf(logit, kLog2E, -reference_));
  }

  float reference_;
  float block_largest_[kQuadLogits] = {kMinusInfinity, kMinusInfinity, kMinusInfinity, kMinusInfinity};
  float block_sum_[kQuadLogits] = {};
  float largest_ = kMinusInfinity;
  uint32_t first_quad_ = 0;
  double sum_ = 0;
};

// Of a whole row.
struct Softmax {
  Place first;           // of the candidates, before any penalty
  float thread_largest;  // among this thread's logits
  double sum;            // of exp(logit - largest), infinite ones being equal
};

// The first token with the warp's largest logit, for all lanes; some lane has it in its blocks. The lanes
// search such a lane's block together.
__device__ __forceinline__ uint32_t first_token(const LogitsRow& row, uint32_t lane,
                                                const ThreadSoftmax& thread, float largest) {
  uint32_t token = kLastToken;
  for (uint32_t owners = __ballot_sync(kAllLanes, thread.largest() == largest); owners != 0;
       owners &= owners - 1) {
    const int owner = __ffs(static_cast<int>(owners)) - 1;
    const uint32_t q = __shfl_sync(kAllLanes, thread.first_quad(), owner) + lane * kGroupThreads;
    if (lane >= kBlockQuads || q >= row.end_whole()) continue;
    const LogitQuad quad = row.quad(q);
#pragma unroll
    for (uint32_t i = 0; i < kQuadLogits; ++i) {
      if (quad.logit[i] == largest) token = min(token, row.token(q) + i);
    }
  }
  return __reduce_min_sync(kAllLanes, token);
}

// The first of the warp's candidates in whole quads, for all lanes.
__device__ __forceinline__ Place first_of_warp(const LogitsRow& row, uint32_t lane,
                                               const ThreadSoftmax& thread) {
  float largest = thread.largest();
#pragma unroll
  for (uint32_t distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
  }
  if (largest == kMinusInfinity) return kLastPlace;
  return place_of(largest, first_token(row, lane, thread, largest));
}

// The sum again, for rows with logits that are not finite or very far apart.
__device__ __forceinline__ double careful_sum(const Group& group, Scratch& scratch, const LogitsRow& row,
                                              float largest) {
  double own = 0;
  for_each_quad(row, group.thread, scratch.staged, [&](uint32_t token, const LogitQuad& quad) {
#pragma unroll
    for (uint32_t i = 0; i < kQuadLogits; ++i) {
      const float share = expf(shortfall(clean(quad.logit[i]), largest));
      own += token + i < row.vocab() ? share : 0;
    }
  });
  return sum_all(group, scratch, own);
}

__device__ __forceinline__ Softmax softmax(const Group& group, Scratch& scratch, const LogitsRow& row) {
  const float reference = kLog2E * row.logit(0);
  float edge = kMinusInfinity;  // of the token outside of whole quads that falls to this thread, if one does
  const uint32_t edge_token = row.edge_token(group.thread);
  if (edge_token < row.vocab()) edge = clean(row.logit(edge_token));
  ThreadSoftmax thread(reference);
  stream(row, group.thread, thread);
  thread.add_to_sum(edge);

  Place first = first_of_warp(row, group.lane, thread);
  if (row.has_edge_tokens()) first = max_warp(max(first, place_of(edge, min(edge_token, kLastToken))));
  const double warp_sum = sum_warp(thread.sum());
  if (group.lane == 0) scratch.warp_softmax[group.warp] = {first, warp_sum};
  group.sync();
  Softmax s = {kLastPlace, fmaxf(thread.largest(), edge), 0};
#pragma unroll
  for (const WarpSoftmax& w : scratch.warp_softmax) {
    s.first = max(s.first, w.first);
    s.sum += w.sum;
  }
  const float largest = logit_of(s.first);
  if (largest == kMinusInfinity) s.first = place_of(largest, 0);  // all are equal
  s.sum *= fast_exp2(fmaf(-kLog2E, largest, reference));
  if (!(s.sum > 0 && s.sum < DBL_MAX)) s.sum = careful_sum(group, scratch, row, largest);
  return s;
}

}  // namespace serval::device::sample
