#pragma once

#include "instructions/attention_merge/merge.cuh"
#include "vm/device/op.cuh"
#include "vm/layout/activation_image.h"

namespace serval::device {

// The work is divided into spans of 64 channels of a head of a row, numbered through all active rows. Half a
// warp merges a span; if there are few spans and some have many leaves, all warps together merge one span
// after the other.
template <>
struct DeviceOp<AttentionMerge> : GroupOp {
  static constexpr bool kStartsEarly = true;  // to find the spans and leaves

  static __device__ bool in_range(const AttentionMerge& op, const ProgramShape& program) {
    return op.first_head < program.heads.q_heads && op.num_heads > 0 &&
           op.num_heads <= program.heads.q_heads - op.first_head &&
           attention_merge::LeafFinder::in_range(op, program);
  }

  static __device__ __forceinline__ void run(const AttentionMerge& op, const Group& group) {
    using namespace attention_merge;
    const LeafFinder finder(op, group.shape, group.tensor<&AttentionMerge::partial, const float>());
    const Spans spans(op, group);
    if (spans.count() >= kConsumerWarps || spans.most_leaves() <= kMergeAccumulators) {
      merge_alone(finder, spans, op, group);
    } else {
      merge_together(finder, spans, op, group);
    }
  }

 private:
  struct Span {
    uint32_t row;  // of the pass
    uint32_t head;
    uint32_t channel;  // the first one
  };

  class Spans {
   public:
    __device__ __forceinline__ Spans(const AttentionMerge& op, const Group& group)
        : op_(op), of_head_(group.shape.heads.head_dim / attention_merge::kSpanChannels) {
      const PassRow& row = group.rows[group.lane % kTableRows];
      const bool active = group.lane < kTableRows && row_is_active(row);
      rows_ = __ballot_sync(kAllLanes, active);
      most_leaves_ = leaves_for_tokens(__reduce_max_sync(kAllLanes, active ? row.position + 1 : 0));
    }
    __device__ __forceinline__ uint32_t count() const {
      return static_cast<uint32_t>(__popc(rows_)) * op_.num_heads * of_head_;
    }
    __device__ __forceinline__ uint32_t most_leaves() const { return most_leaves_; }
    // n < count()
    __device__ __forceinline__ Span at(uint32_t n) const {
      const uint32_t head = n / of_head_, skip = head / op_.num_heads;
      uint32_t rows = rows_;
#pragma unroll 1
      for (uint32_t i = 0; i < skip; ++i) rows &= rows - 1;
      return {static_cast<uint32_t>(__ffs(static_cast<int>(rows)) - 1),
              op_.first_head + head - skip * op_.num_heads,
              (n - head * of_head_) * attention_merge::kSpanChannels};
    }

   private:
    const AttentionMerge& op_;
    uint32_t of_head_;
    uint32_t rows_;  // bit r: row r is active
    uint32_t most_leaves_;
  };

  // Address of a channel of the output, an activation image, with the output's type.
  static __device__ __forceinline__ std::byte* place(const AttentionMerge& op, const Group& group,
                                                     const Span& span, uint32_t channel) {
    return group.tensor<&AttentionMerge::output, std::byte>() +
           activation_image::offset(kTableRows, group.shape.heads.q_heads * group.shape.heads.head_dim,
                                    span.row, span.head * group.shape.heads.head_dim + channel);
  }

  static __device__ __forceinline__ void merge_alone(const attention_merge::LeafFinder& finder,
                                                     const Spans& spans, const AttentionMerge& op,
                                                     const Group& group) {
    using namespace attention_merge;
    const uint32_t count = spans.count();
    bool waited = false;
#pragma unroll 1
    for (uint32_t first = group.warp * 2; first < count; first += kGroupThreads / kHalfWarp) {
      const uint32_t mine = first + group.lane / kHalfWarp;
      const Span span = spans.at(min(mine, count - 1));
      HeadLeaves leaves = finder.leaves_of(group.rows[span.row], span.row, span.head);
      if (mine >= count) leaves.count = 0;
      const uint32_t most = __reduce_max_sync(kAllLanes, leaves.count);
      const uint32_t channel = span.channel + group.lane % kHalfWarp * 4;
      std::byte* const to = place(op, group, span, channel);
      if (!waited) group.wait_inputs();
      waited = true;
      const Merged<2> values = attention_merge::merge_alone(leaves, most, channel, group.lane);
      if (mine < count)
        *reinterpret_cast<uint2*>(without_type(to)) = {values.packed(0, to), values.packed(1, to)};
    }
  }

  static __device__ __forceinline__ void merge_together(const attention_merge::LeafFinder& finder,
                                                        const Spans& spans, const AttentionMerge& op,
                                                        const Group& group) {
    using namespace attention_merge;
    const uint32_t count = spans.count();
#pragma unroll 1
    for (uint32_t n = 0; n < count; ++n) {
      const Span span = spans.at(n);
      const HeadLeaves leaves = finder.leaves_of(group.rows[span.row], span.row, span.head);
      const uint32_t channel = span.channel + 2 * group.lane;
      std::byte* const to = place(op, group, span, channel);
      if (n == 0) group.wait_inputs();
      const Merged<1> values = TogetherMerge(group, n).run(leaves, channel);
      if (group.warp == 0) *reinterpret_cast<uint32_t*>(without_type(to)) = values.packed(0, to);
    }
  }
};

}  // namespace serval::device
