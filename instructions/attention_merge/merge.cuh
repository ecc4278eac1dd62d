// The merge of the leaves of one head of one row, 64 channels at a time. Each lane holds a few neighbouring
// channels and the sums of all accumulators (op.h) until they are added up. Either half a warp merges a span,
// so that a group merges 16 spans at the same time, or all warps of a group do, with one accumulator each;
// the bits are the same.
#pragma once

#include "instructions/attention_merge/op.h"
#include "vm/device/group.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/ptx/math.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/tiles/ops/global/async.cuh"

namespace serval::device::attention_merge {

inline constexpr uint32_t kSpanChannels = 64;
static_assert(kMergeAccumulators == kConsumerWarps, "an accumulator for each warp of a group");

// Division by a run-time constant; n × divisor must be less than 2^32.
struct Divider {
  uint32_t inverse;  // 2^32 / divisor, rounded up; 0 for divisor 1
  __device__ __forceinline__ explicit Divider(uint32_t divisor) : inverse(0xffffffff / divisor + 1) {}
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return inverse == 0 ? n : __umulhi(n, inverse);
  }
};

// Addresses of the leaves of one head of one row.
struct HeadLeaves {
  const float* first;   // address that leaf 0 would have in split 0
  uint64_t split_cols;  // elements from one split to the next
  uint32_t round_cols;  // elements from one leaf to the next in the same split
  uint32_t head_dim;
  uint32_t splits;
  Divider by_lanes;
  uint32_t split0;  // split of leaf 0
  uint32_t count;

  __device__ __forceinline__ const float* at(uint32_t leaf) const {
    const uint32_t round = by_lanes.quotient(leaf);
    const uint32_t split = split0 + leaf - round * splits;
    return first + (split < splits ? split : split - splits) * split_cols + uint64_t{round} * round_cols;
  }
};

// Finds the leaves of an instruction's heads.
class LeafFinder {
 public:
  __device__ __forceinline__ LeafFinder(const AttentionMerge& op, const ProgramShape& program,
                                        const float* partial)
      : op_(op),
        heads_(program.heads),
        partial_(partial),
        layout_{op.splits, program.heads.group_heads(), program.heads.head_dim, kTableRows},
        by_splits_(op.splits),
        cols_(by_splits_.quotient(leaves_for_tokens(program.limits.max_context) + op.splits - 1) *
              layout_.leaf_cols()) {}

  // `row`: row `index` of the pass.
  __device__ __forceinline__ HeadLeaves leaves_of(const PassRow& row, uint32_t index, uint32_t head) const {
    const uint32_t kv_head = head * heads_.kv_heads / heads_.q_heads;
    const float* first = partial_ + layout_.row(kv_head, 0, index) * cols_ +
                         layout_.col(0, head - kv_head * layout_.group_heads);
    return {first,
            kTableRows * cols_,
            static_cast<uint32_t>(layout_.leaf_cols()),
            heads_.head_dim,
            op_.splits,
            by_splits_,
            row.slot - by_splits_.quotient(row.slot) * op_.splits,
            leaves_for_tokens(row.position + 1)};
  }
  // The arithmetic above stays within 32 bits.
  static __device__ bool in_range(const AttentionMerge& op, const ProgramShape& program) {
    constexpr uint64_t kLimit = uint64_t{1} << 32;
    const HeadShape& heads = program.heads;
    return uint64_t{heads.q_heads} * heads.kv_heads < kLimit &&
           uint64_t{heads.q_heads} * (heads.head_dim + 2) < kLimit &&
           (uint64_t{leaves_for_tokens(program.limits.max_context)} + op.splits + kLargestSequences) *
                   op.splits <
               kLimit;
  }

 private:
  const AttentionMerge& op_;
  const HeadShape& heads_;
  const float* partial_;
  PartialLayout layout_;
  Divider by_splits_;
  uint64_t cols_;  // layout_.cols()
};

// A lane's part of a leaf: 2 × kPairs channels.
template <uint32_t kPairs>
struct LeafPart {
  float2 score{-INFINITY, 0};  // the largest score, the sum of exponentials
  float2 values[kPairs]{};

  __device__ __forceinline__ void load(const HeadLeaves& leaves, uint32_t leaf, uint32_t channel) {
    const float* from = leaves.at(leaf);
    score = ptx::load_relaxed(reinterpret_cast<const float2*>(from + leaves.head_dim));
#pragma unroll
    for (uint32_t p = 0; p < kPairs; ++p)
      values[p] = ptx::load_relaxed(reinterpret_cast<const float2*>(from + channel + 2 * p));
  }
};

// The sums of one accumulator, or of several added up.
template <uint32_t kPairs>
struct AccumulatorSums {
  float weight = 0;
  float2 values[kPairs]{};

  __device__ __forceinline__ void add(const LeafPart<kPairs>& leaf, float largest) {
    const float factor = ptx::exp(leaf.score.x - largest);
    weight = fmaf(factor, leaf.score.y, weight);
#pragma unroll
    for (uint32_t p = 0; p < kPairs; ++p) {
      values[p].x = fmaf(factor, leaf.values[p].x, values[p].x);
      values[p].y = fmaf(factor, leaf.values[p].y, values[p].y);
    }
  }
  __device__ __forceinline__ void add(const AccumulatorSums& other) {
    weight += other.weight;
#pragma unroll
    for (uint32_t p = 0; p < kPairs; ++p) {
      values[p].x += other.values[p].x;
      values[p].y += other.values[p].y;
    }
  }
};

// Output channels.
template <uint32_t kPairs>
struct Merged {
  float2 pairs[kPairs];

  __device__ __forceinline__ Merged(const float2 (&values)[kPairs], float weight) {
#pragma unroll
    for (uint32_t p = 0; p < kPairs; ++p)
      pairs[p] = {__fdividef(values[p].x, weight), __fdividef(values[p].y, weight)};
  }
  // Pair p in the type that `to` carries (vm/device/typed_address.h).
  __device__ __forceinline__ uint32_t packed(uint32_t p, const std::byte* to) const {
    return pack_as(to, pairs[p].x, pairs[p].y);
  }
};
// Adds the upper half of the accumulators to the lower until one is left.
template <uint32_t kPairs>
__device__ __forceinline__ Merged<kPairs> merged(AccumulatorSums<kPairs> (&sums)[kMergeAccumulators]) {
#pragma unroll
  for (uint32_t half = kMergeAccumulators / 2; half > 0; half /= 2) {
#pragma unroll
    for (uint32_t c = 0; c < kMergeAccumulators / 2; ++c) {
      if (c < half) sums[c].add(sums[c + half]);
    }
  }
  return {sums[0].values, sums[0].weight};
}

// The largest of the scores of kLanes neighbouring lanes.
template <uint32_t kLanes>
__device__ __forceinline__ float largest_of_lanes(float score) {
#pragma unroll
  for (uint32_t distance = kLanes / 2; distance > 0; distance /= 2) {
    score = fmaxf(score, __shfl_xor_sync(kAllLanes, score, distance));
  }
  return score;
}
// The largest score of the leaves from `begin` on; kLanes lanes search together.
template <uint32_t kLanes>
__device__ __forceinline__ float largest_score(const HeadLeaves& leaves, uint32_t begin, uint32_t lane) {
  float largest = -INFINITY;
#pragma unroll 4
  for (uint32_t leaf = begin + lane % kLanes; leaf < leaves.count; leaf += kLanes) {
    largest = fmaxf(largest, ptx::load_relaxed(leaves.at(leaf) + leaves.head_dim));
  }
  __syncwarp();
  return largest_of_lanes<kLanes>(largest);
}

inline constexpr uint32_t kHalfWarp = kWarpThreads / 2;

// The merge by half a warp. A lane's channels are `channel` and the next three. Both halves of a warp call it
// together; a half without a span has count 0. `most` is the larger count of the two.
__device__ __forceinline__ Merged<2> merge_alone(const HeadLeaves& leaves, uint32_t most, uint32_t channel,
                                                 uint32_t lane) {
  LeafPart<2> parts[kMergeAccumulators];
  if (leaves.count > 0) parts[0].load(leaves, 0, channel);
  if (most == 1) return {parts[0].values, parts[0].score.y};
  AccumulatorSums<2> sums[kMergeAccumulators];
  float largest = -INFINITY;
#pragma unroll 1
  for (uint32_t round = 0; round < most; round += kMergeAccumulators) {
#pragma unroll
    for (uint32_t c = 0; c < kMergeAccumulators; ++c) {
      if (round + c == 0) continue;
      parts[c] = {};
      if (round + c < leaves.count) parts[c].load(leaves, round + c, channel);
    }
    if (round == 0) {
      if (most > kMergeAccumulators) largest = largest_score<kHalfWarp>(leaves, kMergeAccumulators, lane);
#pragma unroll
      for (const LeafPart<2>& part : parts) largest = fmaxf(largest, part.score.x);
    }
#pragma unroll
    for (uint32_t c = 0; c < kMergeAccumulators; ++c) sums[c].add(parts[c], largest);
  }
  return merged(sums);
}

// Shared memory of a group whose warps merge a span together: warp w has accumulator w.
struct SharedMerge {
  static constexpr uint32_t kBatch = 20;  // leaves of an accumulator that fit into shared memory at once
  float2 values[kMergeAccumulators][kBatch][kWarpThreads];  // a lane's channels of a leaf
  float2 scores[kMergeAccumulators][kBatch];
  // Two sets, used alternately: warp 0 may still read one when the others are at the next span.
  struct {
    float largest[kMergeAccumulators];
    AccumulatorSums<1> sums[kMergeAccumulators][kWarpThreads];
  } turns[2];
};
static_assert(sizeof(SharedMerge) <= kScratchBytes);

// The merge by all warps of a group. A lane's channels are `channel` and the next. Warp 0 gets the result.
class TogetherMerge {
 public:
  __device__ __forceinline__ TogetherMerge(const Group& group, uint32_t turn)
      : group_(group), shared_(*reinterpret_cast<SharedMerge*>(group.scratch)), turn_(turn % 2) {}

  __device__ __forceinline__ Merged<1> run(const HeadLeaves& leaves, uint32_t channel) const {
    auto& turn = shared_.turns[turn_];
    const uint32_t count =
        (leaves.count + kMergeAccumulators - 1 - group_.warp) / kMergeAccumulators;  // of the accumulator
    load(leaves, 0, count, channel);
    const float largest_of_accumulator = largest_score(leaves);
    if (group_.lane == 0) turn.largest[group_.warp] = largest_of_accumulator;
    group_.sync();
    const float largest =
        largest_of_lanes<kMergeAccumulators>(turn.largest[group_.lane % kMergeAccumulators]);
    AccumulatorSums<1> sum;
#pragma unroll 1
    for (uint32_t first = 0; first < count; first += SharedMerge::kBatch) {
      if (first > 0) load(leaves, first, count, channel);
      add(sum, min(count - first, SharedMerge::kBatch), largest);
    }
    turn.sums[group_.warp][group_.lane] = sum;
    group_.sync();
    AccumulatorSums<1> sums[kMergeAccumulators];
    if (group_.warp == 0) {
#pragma unroll
      for (uint32_t c = 0; c < kMergeAccumulators; ++c) sums[c] = turn.sums[c][group_.lane];
    }
    return merged(sums);
  }

 private:
  // Starts copying the accumulator's leaves from `first` on to shared memory.
  __device__ __forceinline__ void load(const HeadLeaves& leaves, uint32_t first, uint32_t count,
                                       uint32_t channel) const {
    __syncwarp();
#pragma unroll 1
    for (uint32_t i = 0; i < SharedMerge::kBatch && first + i < count; ++i) {
      const float* from = leaves.at(group_.warp + (first + i) * kMergeAccumulators);
      ptx::copy_async_8(&shared_.values[group_.warp][i][group_.lane], from + channel);
      if (group_.lane == 0) ptx::copy_async_8(&shared_.scores[group_.warp][i], from + leaves.head_dim);
    }
    tiles::commit_async();
  }
  __device__ __forceinline__ float largest_score(const HeadLeaves& leaves) const {
    float largest = -INFINITY;
#pragma unroll 1
    for (uint32_t leaf = group_.warp + group_.lane * kMergeAccumulators; leaf < leaves.count;
         leaf += kWarpThreads * kMergeAccumulators) {
      largest = fmaxf(largest, ptx::load_relaxed(leaves.at(leaf) + leaves.head_dim));
    }
    __syncwarp();
    return largest_of_lanes<kWarpThreads>(largest);
  }
  __device__ __forceinline__ void add(AccumulatorSums<1>& sum, uint32_t count, float largest) const {
    tiles::wait_async<0>();
#pragma unroll 4
    for (uint32_t i = 0; i < count; ++i) {
      sum.add({shared_.scores[group_.warp][i], {shared_.values[group_.warp][i][group_.lane]}}, largest);
    }
  }

  const Group& group_;
  SharedMerge& shared_;
  uint32_t turn_;
};

}  // namespace serval::device::attention_merge
