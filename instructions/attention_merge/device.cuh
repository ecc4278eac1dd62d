#pragma once

#include "instructions/attention_merge/merge.cuh"
#include "vm/device/activation_image.h"
#include "vm/device/op.cuh"

namespace serval::device {

// Each warp takes 64 channels of a head at a time; all of them together take those of a head with many
// leaves, unless there are heads enough for all.
template <>
struct DeviceOp<AttentionMerge> : GroupOp {
  static __device__ bool in_range(const AttentionMerge& op) {
    return op.first_head < op.q_heads && op.num_heads <= op.q_heads - op.first_head &&
           attention_merge::LeafFinder::in_range(op);
  }

  static __device__ __forceinline__ void run(const AttentionMerge& op, const Group& group) {
    using namespace attention_merge;
    const LeafFinder finder(op, group.tensor<&AttentionMerge::partial, const float>());
    const bool active = group.lane < kMaxRows && row_is_active(group.rows[group.lane % kMaxRows]);
    uint32_t rows = __ballot_sync(kAllLanes, active);
    const bool many = static_cast<uint32_t>(__popc(rows)) * op.num_heads >= kConsumerWarps;
    Turn turn{__shfl_sync(kAllLanes, group.warp, 0), 0, 0};
    for (; rows != 0; rows &= rows - 1) {
      const auto index = static_cast<uint32_t>(__ffs(static_cast<int>(rows)) - 1);
      const PassRow& row = group.rows[index];
      const bool together = !many && leaves_for_tokens(row.position + 1) > kMergeClasses;
#pragma unroll 1
      for (uint32_t head = op.first_head; head < op.first_head + op.num_heads; ++head) {
        const OutputPlace to{group.tensor<&AttentionMerge::output, std::byte>(), op.q_heads * op.head_dim,
                             index, head * op.head_dim};
        merge_head(finder.leaves_of(row, index, head), group, together, turn, to);
      }
    }
  }

 private:
  // A head of a row of the output, which is an activation image.
  struct OutputPlace {
    std::byte* image;
    uint32_t cols;
    uint32_t row;
    uint32_t first_col;

    __device__ __forceinline__ uint32_t* at(uint32_t channel) const {
      return reinterpret_cast<uint32_t*>(image + activation_image::offset(cols, row, first_col + channel));
    }
  };
  // Runs of channels are counted: those that one warp takes alone, so that each has its turn, and those that
  // all take together, so that two places in shared memory are used in turns. A barrier lies between two of
  // the latter.
  struct Turn {
    uint32_t warp;
    uint32_t alone;
    uint32_t together;
  };

  static __device__ __forceinline__ void merge_head(const attention_merge::HeadLeaves& leaves,
                                                    const Group& group, bool together, Turn& turn,
                                                    const OutputPlace& to) {
    using namespace attention_merge;
    auto* scratch = reinterpret_cast<SharedSums*>(group.scratch);
#pragma unroll 1
    for (uint32_t first = 0; first < leaves.head_dim; first += kRunChannels) {
      const uint32_t channel = first + 2 * group.lane;
      float2 values;
      if (together) {
        values = merge_channels_together(leaves, channel, group, scratch[turn.together++ % 2]);
        if (turn.warp != 0) continue;
      } else {
        if (turn.alone++ % kConsumerWarps != turn.warp) continue;
        values = merge_channels(leaves, channel, group.lane);
      }
      *to.at(channel) = ptx::pack_bf16(values.x, values.y);
    }
  }
};

}  // namespace serval::device
