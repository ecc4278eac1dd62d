#pragma once

#include "instructions/common/residual.cuh"
#include "instructions/qk_norm_rope/op.h"
#include "vm/device/op.cuh"
#include "vm/layout/kv_cache.h"

namespace serval::device {

// A warp has a head of a row, a lane one or two of the head's RoPE pairs: neighbouring channels in the first
// half of the head, and as many in the second.
template <>
struct DeviceOp<QkNormRope> : GroupOp {
  using Op = QkNormRope;
  static constexpr bool kStartsEarly = true;  // to load weights, and the angles of its rows

  template <class Config>
  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    return (Config::kMultipliesTiles || program.limits.rows <= kTableRows) && op.num_heads > 0 &&
           op.first_head < projected_heads(program.heads) &&
           op.num_heads <= projected_heads(program.heads) - op.first_head &&
           op.first_row < program.limits.rows && op.num_rows <= program.limits.rows - op.first_row;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    // With many rows, the loads of several heads of a row are in flight at a time.
    constexpr uint32_t kAtOnce = Config::kMultipliesTiles ? 4 : 1;
    if (group.shape.heads.head_dim == 128)
      run_heads<2, kAtOnce>(op, group);
    else
      run_heads<1, kAtOnce>(op, group);
  }

 private:
  template <uint32_t kPairs>
  static constexpr uint32_t kHeadDim = 2 * kPairs* kWarpThreads;
  // A lane's part of a head: the first and second channels of its pairs.
  template <uint32_t kPairs>
  struct Pairs {
    float low[kPairs], high[kPairs];
  };
  template <uint32_t kPairs>
  static __device__ __forceinline__ void load(float (&to)[kPairs], const float* from) {
    if constexpr (kPairs == 2) {
      const float2 both = ptx::load_relaxed(reinterpret_cast<const float2*>(from));
      to[0] = both.x;
      to[1] = both.y;
    } else {
      to[0] = ptx::load_relaxed(from);
    }
  }
  template <uint32_t kPairs>
  static __device__ __forceinline__ Pairs<kPairs> angles_of(const Op& op, const Group& group,
                                                            uint32_t position) {
    const float* cosines =
        group.tensor<&Op::rope, const float>() + size_t{position} * kHeadDim<kPairs> + group.lane * kPairs;
    const float* sines = cosines + kHeadDim<kPairs> / 2;
    Pairs<kPairs> angles;
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      angles.low[i] = ptx::load_constant(cosines + i);
      angles.high[i] = ptx::load_constant(sines + i);
    }
    return angles;
  }
  // The bf16 norm weights of the lane's channels.
  template <uint32_t kPairs>
  static __device__ __forceinline__ Pairs<kPairs> weights_of(const Group& group, const uint16_t* norm) {
    const uint16_t* low = norm + group.lane * kPairs;
    const uint16_t* high = low + kHeadDim<kPairs> / 2;
    Pairs<kPairs> weights;
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      weights.low[i] = ptx::bf16_low(ptx::load_constant(low + i));
      weights.high[i] = ptx::bf16_low(ptx::load_constant(high + i));
    }
    return weights;
  }
  template <uint32_t kPairs>
  static __device__ __forceinline__ void store(uint16_t* to, const float (&values)[kPairs]) {
    if constexpr (kPairs == 2)
      *reinterpret_cast<uint32_t*>(to) = ptx::pack_bf16(values[0], values[1]);
    else
      *to = static_cast<uint16_t>(ptx::pack_bf16(values[0], 0));
  }

  template <uint32_t kPairs>
  struct Norms {
    Pairs<kPairs> q, k;
  };
  // Values that a row's heads share: its angles, and its token's position in the cache.
  template <uint32_t kPairs>
  struct RowOfPass {
    Pairs<kPairs> angles;  // cosines, sines
    uint32_t block, token;
  };
  template <uint32_t kPairs>
  static __device__ __forceinline__ RowOfPass<kPairs> find_row(const Op& op, const Group& group,
                                                               const PassRow& row) {
    const auto* table = group.tensor<&Op::block_table, const uint32_t>();
    return {angles_of<kPairs>(op, group, row.position),
            ptx::load_relaxed(table + size_t{row.slot} * blocks_for_tokens(group.shape.limits.max_context) +
                              row.position / kKvBlockTokens),
            row.position % kKvBlockTokens};
  }

  // The warps take turns at groups of kAtOnce heads of a row.
  template <uint32_t kPairs, uint32_t kAtOnce>
  static __device__ __forceinline__ void run_heads(const Op& op, const Group& group) {
    const uint32_t groups = (op.num_heads + kAtOnce - 1) / kAtOnce, tasks = groups * op.num_rows;
    const Norms<kPairs> norms{weights_of<kPairs>(group, group.tensor<&Op::q_norm, const uint16_t>()),
                              weights_of<kPairs>(group, group.tensor<&Op::k_norm, const uint16_t>())};
    bool waited = false;
#pragma unroll 1
    for (uint32_t task = group.warp; task < tasks; task += kConsumerWarps) {
      const uint32_t r = op.first_row + task / groups;
      const PassRow& row = group.rows[r];
      if (!row_is_active(row)) continue;
      const RowOfPass<kPairs> found = find_row<kPairs>(op, group, row);
      if (!waited) group.wait_inputs();
      waited = true;
      finish_heads<kPairs, kAtOnce>(op, group, norms, found, r, op.first_head + task % groups * kAtOnce);
    }
  }

  template <uint32_t kPairs, uint32_t kAtOnce>
  static __device__ __forceinline__ void finish_heads(const Op& op, const Group& group,
                                                      const Norms<kPairs>& norms,
                                                      const RowOfPass<kPairs>& row, uint32_t r,
                                                      uint32_t first) {
    const uint32_t end = op.first_head + op.num_heads, channel = group.lane * kPairs;
    const float* from = group.tensor<&Op::projected, const float>() +
                        size_t{r} * projected_heads(group.shape.heads) * kHeadDim<kPairs> + channel;
    Pairs<kPairs> heads[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const float* head = from + size_t{min(first + i, end - 1)} * kHeadDim<kPairs>;
      load(heads[i].low, head);
      load(heads[i].high, head + kHeadDim<kPairs> / 2);
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i >= end) break;
      const ProjectedHead head = projected_head(group.shape.heads, first + i);
      if (head.part != HeadPart::kV) {
        normalise(op, norms, head.part == HeadPart::kQ, heads[i]);
        rotate(heads[i], row.angles);
      }
      uint16_t* const to = place<kHeadDim<kPairs>>(group, head, row.block, row.token, r) + channel;
      store(to, heads[i].low);
      store(to + kHeadDim<kPairs> / 2, heads[i].high);
    }
  }

  template <uint32_t kPairs>
  static __device__ __forceinline__ void normalise(const Op& op, const Norms<kPairs>& norms, bool is_query,
                                                   Pairs<kPairs>& head) {
    // In the order of head_scale() (instructions/common/residual.h), without fused multiply-add.
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      const float squares =
          __fadd_rn(__fmul_rn(head.low[i], head.low[i]), __fmul_rn(head.high[i], head.high[i]));
      sum = i == 0 ? squares : __fadd_rn(sum, squares);
    }
    const float mean = residual::warp_sum(sum) / static_cast<float>(kHeadDim<kPairs>);
    const float scale = rsqrtf(mean + op.epsilon);
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      head.low[i] = __fmul_rn(__fmul_rn(head.low[i], scale), is_query ? norms.q.low[i] : norms.k.low[i]);
      head.high[i] = __fmul_rn(__fmul_rn(head.high[i], scale), is_query ? norms.q.high[i] : norms.k.high[i]);
    }
  }
  // The host rounds each product and the sum, so no fused multiply-add.
  template <uint32_t kPairs>
  static __device__ __forceinline__ void rotate(Pairs<kPairs>& head, const Pairs<kPairs>& angles) {
#pragma unroll
    for (uint32_t i = 0; i < kPairs; ++i) {
      const float a = head.low[i], b = head.high[i], c = angles.low[i], s = angles.high[i];
      head.low[i] = __fsub_rn(__fmul_rn(a, c), __fmul_rn(b, s));
      head.high[i] = __fadd_rn(__fmul_rn(b, c), __fmul_rn(a, s));
    }
  }

  template <uint32_t kDim>
  static __device__ __forceinline__ uint16_t* place(const Group& group, const ProjectedHead& head,
                                                    uint32_t block, uint32_t token, uint32_t r) {
    const HeadShape& heads = group.shape.heads;
    if (head.part == HeadPart::kQ)
      return group.tensor<&Op::q, uint16_t>() + (size_t{r} * heads.q_heads + head.index) * kDim;
    uint16_t* const cache = head.part == HeadPart::kK ? group.tensor<&Op::k_cache, uint16_t>()
                                                      : group.tensor<&Op::v_cache, uint16_t>();
    return cache + kv_offset(block, head.index, token, heads.kv_heads, kDim);
  }
};

}  // namespace serval::device
