// The merge of 64 channels of one head of one row: a lane holds two neighbouring channels, and the sums of
// all classes of leaves (op.h) until they are added up. By one warp, or by all warps of a group with a class
// each, which gives the same bits.
#pragma once

#include "instructions/attention_merge/op.h"
#include "vm/device/group.cuh"
#include "vm/tiles/ptx_math.cuh"
#include "vm/tiles/ptx_memory.cuh"

namespace serval::device::attention_merge {

inline constexpr uint32_t kAllLanes = 0xffffffff;
inline constexpr uint32_t kRunChannels = 2 * kWarpThreads;
static_assert(kMergeClasses == kConsumerWarps, "a class for each warp of a group");

// Divides by a number that is known once the kernel runs; n × divisor must be less than 2^32.
struct Divider {
  uint32_t inverse;  // 2^32 / divisor, rounded up; divisor 1 has none
  __device__ __forceinline__ explicit Divider(uint32_t divisor) : inverse(0xffffffff / divisor + 1) {}
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return inverse == 0 ? n : __umulhi(n, inverse);
  }
};

// Where the leaves of one head of one row are.
struct HeadLeaves {
  const float* first;   // place of leaf 0 if it were in lane 0
  uint64_t lane_cols;   // elements from a lane to the next
  uint64_t round_cols;  // and from a leaf to the next in the same lane
  uint32_t head_dim;
  uint32_t lanes;
  Divider by_lanes;
  uint32_t lane0;  // of leaf 0
  uint32_t count;

  __device__ __forceinline__ const float* at(uint32_t leaf) const {
    const uint32_t round = by_lanes.quotient(leaf);
    const uint32_t lane = lane0 + leaf - round * lanes;
    return first + (lane < lanes ? lane : lane - lanes) * lane_cols + round * round_cols;
  }
};

// Finds the leaves of an instruction's heads.
class LeafFinder {
 public:
  __device__ __forceinline__ LeafFinder(const AttentionMerge& op, const float* partial)
      : op_(op),
        partial_(partial),
        layout_(partial_layout(op)),
        by_lanes_(op.lanes),
        cols_(by_lanes_.quotient(leaves_for_tokens(op.max_context) + op.lanes - 1) * layout_.leaf_cols()) {}

  // `row` is the pass's row `index`.
  __device__ __forceinline__ HeadLeaves leaves_of(const PassRow& row, uint32_t index, uint32_t head) const {
    const uint32_t kv_head = head * op_.kv_heads / op_.q_heads;
    const float* first = partial_ + layout_.row(kv_head, 0, index) * cols_ +
                         layout_.col(0, head - kv_head * layout_.group_heads);
    return {first,
            kMaxRows * cols_,
            layout_.leaf_cols(),
            op_.head_dim,
            op_.lanes,
            by_lanes_,
            row.slot - by_lanes_.quotient(row.slot) * op_.lanes,
            leaves_for_tokens(row.position + 1)};
  }
  // The arithmetic above stays within 32 bits.
  static __device__ bool in_range(const AttentionMerge& op) {
    constexpr uint64_t kLimit = uint64_t{1} << 32;
    return uint64_t{op.q_heads} * op.kv_heads < kLimit &&
           (uint64_t{leaves_for_tokens(op.max_context)} + op.lanes + kMaxSlots) * op.lanes < kLimit;
  }

 private:
  const AttentionMerge& op_;
  const float* partial_;
  PartialLayout layout_;
  Divider by_lanes_;
  uint64_t cols_;  // layout_.cols()
};

// What a lane reads of a leaf.
struct LeafPart {
  float2 score{-INFINITY, 0};  // the largest, the sum of exponentials
  float2 values{0, 0};         // of the lane's channels

  __device__ __forceinline__ void load(const HeadLeaves& leaves, uint32_t leaf, uint32_t channel) {
    const float* from = leaves.at(leaf);
    score = tiles::ptx::load_relaxed(reinterpret_cast<const float2*>(from + leaves.head_dim));
    values = tiles::ptx::load_relaxed(reinterpret_cast<const float2*>(from + channel));
  }
};

// The sums of one class, or of several.
struct ClassSums {
  float weight = 0;
  float2 values{0, 0};

  __device__ __forceinline__ void add(const LeafPart& leaf, float largest) {
    const float factor = tiles::ptx::exp(leaf.score.x - largest);
    weight = fmaf(factor, leaf.score.y, weight);
    values.x = fmaf(factor, leaf.values.x, values.x);
    values.y = fmaf(factor, leaf.values.y, values.y);
  }
  __device__ __forceinline__ void add(const ClassSums& other) {
    weight += other.weight;
    values.x += other.values.x;
    values.y += other.values.y;
  }
};

__device__ __forceinline__ float2 quotient(const float2& values, float weight) {
  return {__fdividef(values.x, weight), __fdividef(values.y, weight)};
}
// Adds the upper half of the classes to the lower until one is left.
__device__ __forceinline__ float2 merged(ClassSums (&sums)[kMergeClasses]) {
#pragma unroll
  for (uint32_t half = kMergeClasses / 2; half > 0; half /= 2) {
#pragma unroll
    for (uint32_t c = 0; c < kMergeClasses / 2; ++c) {
      if (c < half) sums[c].add(sums[c + half]);
    }
  }
  return quotient(sums[0].values, sums[0].weight);
}

// The largest of the scores that the lanes of a warp have.
__device__ __forceinline__ float largest_of_warp(float score) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    score = fmaxf(score, __shfl_xor_sync(kAllLanes, score, distance));
  }
  return score;
}
// The largest score of the leaves `begin` + lane, + 32, … in each lane.
__device__ __forceinline__ float largest_of_lane(const HeadLeaves& leaves, uint32_t begin, uint32_t lane) {
  float largest = -INFINITY;
#pragma unroll 4
  for (uint32_t leaf = begin + lane; leaf < leaves.count; leaf += kWarpThreads) {
    largest = fmaxf(largest, ptx::load_relaxed(leaves.at(leaf) + leaves.head_dim));
  }
  return largest;
}

// Channels `channel` and the next of a head, by one warp. The arguments but for `channel` and `lane` are the
// same in all lanes.
__device__ __forceinline__ float2 merge_channels(const HeadLeaves& leaves, uint32_t channel, uint32_t lane) {
  LeafPart parts[kMergeClasses];
  parts[0].load(leaves, 0, channel);
  if (leaves.count == 1) return quotient(parts[0].values, parts[0].score.y);
  ClassSums sums[kMergeClasses];
  float largest = -INFINITY;
  for (uint32_t round = 0; round < leaves.count; round += kMergeClasses) {
#pragma unroll
    for (uint32_t c = 0; c < kMergeClasses; ++c) {
      if (round + c == 0) continue;
      parts[c] = {};
      if (round + c < leaves.count) parts[c].load(leaves, round + c, channel);
    }
    if (round == 0) {
      if (leaves.count > kMergeClasses)
        largest = largest_of_warp(largest_of_lane(leaves, kMergeClasses, lane));
#pragma unroll
      for (const LeafPart& part : parts) largest = fmaxf(largest, part.score.x);
    }
#pragma unroll
    for (uint32_t c = 0; c < kMergeClasses; ++c) sums[c].add(parts[c], largest);
  }
  return merged(sums);
}

// What the warps of a group hand to warp 0.
using SharedSums = ClassSums[kMergeClasses][kWarpThreads];

// The same by all warps of a group; warp 0 gets the result. `scratch` may be written again after the next
// barrier.
__device__ __forceinline__ float2 merge_channels_together(const HeadLeaves& leaves, uint32_t channel,
                                                          const Group& group, SharedSums& scratch) {
  constexpr uint32_t kInFlight = 8;
  ClassSums sum;
  float largest = -INFINITY;
  for (uint32_t leaf = group.warp; leaf < leaves.count; leaf += kInFlight * kMergeClasses) {
    LeafPart parts[kInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) {
      if (leaf + i * kMergeClasses < leaves.count) parts[i].load(leaves, leaf + i * kMergeClasses, channel);
    }
    if (leaf == group.warp) largest = largest_of_warp(largest_of_lane(leaves, 0, group.lane));
#pragma unroll
    for (const LeafPart& part : parts) sum.add(part, largest);
  }
  scratch[group.warp][group.lane] = sum;
  group.sync();
  ClassSums sums[kMergeClasses];
  if (group.warp != 0) return {};
#pragma unroll
  for (uint32_t c = 0; c < kMergeClasses; ++c) sums[c] = scratch[c][group.lane];
  return merged(sums);
}

}  // namespace serval::device::attention_merge
