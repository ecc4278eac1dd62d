#pragma once

#include "instructions/planned_merge/op.h"
#include "vm/device/op.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device {

// A warp has 64 channels of a query head of a split's row, a lane two of them. Leaves are merged one after
// the other; the loads of several are in flight at a time.
template <>
struct DeviceOp<PlannedMerge> : GroupOp {
  using Op = PlannedMerge;

  static __device__ bool in_range(const Op& op, const ProgramShape&) {
    return op.record < op.records && op.records <= kMaxSms;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    merge_rows<Config>(op, group);
  }

 private:
  static constexpr uint32_t kRunChannels = 2 * kWarpThreads;
  static constexpr uint32_t kAhead = 8;  // leaves whose loads are in flight

  // A lane's part of a place.
  struct Part {
    float2 o;
    float2 sums;  // the largest score and the total
  };
  static __device__ __forceinline__ Part load(const float* head, uint32_t channel, uint32_t head_dim) {
    return {ptx::load_relaxed(reinterpret_cast<const float2*>(head + channel)),
            ptx::load_relaxed(reinterpret_cast<const float2*>(head + head_dim))};
  }
  static __device__ __forceinline__ void add(Part& to, const Part& leaf) {
    const float largest = fmaxf(to.sums.x, leaf.sums.x);
    const float a = ptx::exp2(to.sums.x - largest), b = ptx::exp2(leaf.sums.x - largest);
    to.sums = {largest, __fmaf_rn(leaf.sums.y, b, __fmul_rn(to.sums.y, a))};
    to.o.x = __fmaf_rn(leaf.o.x, b, __fmul_rn(to.o.x, a));
    to.o.y = __fmaf_rn(leaf.o.y, b, __fmul_rn(to.o.y, a));
  }

  template <class Config>
  static __device__ __forceinline__ void merge_rows(const Op& op, const Group& group) {
    const auto* list = group.tensor<&Op::items, const AttentionList>();
    const auto* rows = group.tensor<&Op::rows, const PassRow>();
    if (ptx::load_constant(&list->records) != op.records || ptx::load_constant(&list->splits) == 0) return;
    const uint32_t runs_of_head = group.shape.heads.head_dim / kRunChannels;
    const uint32_t runs = group.shape.heads.group_heads() * runs_of_head;
#pragma unroll 1
    for (uint32_t n = op.record; n < list->split_rows; n += op.records) {
      const AttentionSplit split = list->split[split_of(*list, n)];
      const uint32_t r = split.first_row + (n - split.rows_before);
      if (r >= group.shape.limits.rows) continue;
      PassRow pass_row;
      pass_row.active = ptx::load_relaxed(&rows[r].active);
      pass_row.position = ptx::load_relaxed(&rows[r].position);
      const SplitRow row = split_row(split, n - split.rows_before, pass_row);
      if (!row_is_active(pass_row) || !in_bounds(op, group.shape.heads, row)) continue;
#pragma unroll 1
      for (uint32_t run = group.warp; run < runs; run += kConsumerWarps)
        merge_run<Config>(op, group, row, run / runs_of_head, run % runs_of_head * kRunChannels);
    }
  }

  template <class Config>
  static __device__ __forceinline__ void merge_run(const Op& op, const Group& group, const SplitRow& row,
                                                   uint32_t group_head, uint32_t first_channel) {
    const PlaceLayout layout = place_layout(group.shape.heads);
    const float* place = group.tensor<&Op::partial, const float>() + row.place * layout.cols() +
                         group_head * layout.head_cols();
    const uint32_t channel = first_channel + group.lane * 2;
    Part merged = load(place, channel, group.shape.heads.head_dim);
#pragma unroll 1
    for (uint32_t first = 1; first <= row.leaves; first += kAhead) {
      Part leaves[kAhead];
#pragma unroll
      for (uint32_t i = 0; i < kAhead; ++i)
        leaves[i] =
            load(place + min(first + i, row.leaves) * layout.cols(), channel, group.shape.heads.head_dim);
#pragma unroll
      for (uint32_t i = 0; i < kAhead; ++i) {
        if (first + i <= row.leaves) add(merged, leaves[i]);
      }
    }
    const float share = 1.0F / merged.sums.y;
    const uint32_t cols = group.shape.heads.q_heads * group.shape.heads.head_dim;
    const uint32_t col = (row.head * layout.group_heads + group_head) * group.shape.heads.head_dim + channel;
    std::byte* output = group.tensor<&Op::output, std::byte>();
    *reinterpret_cast<uint32_t*>(without_type(output) +
                                 slab_image::offset(group.shape.limits.rows, cols, row.row, col)) =
        pack_for<Config>(output, __fmul_rn(merged.o.x, share), __fmul_rn(merged.o.y, share));
  }
};

}  // namespace serval::device
