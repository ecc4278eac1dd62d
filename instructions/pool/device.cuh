#pragma once

#include "instructions/common/residual.cuh"
#include "instructions/pool/op.h"
#include "vm/device/op.cuh"

namespace serval::device {

// First a warp finds the scale of a row at a time; then each thread adds up columns, row after row.
template <>
struct DeviceOp<Pool> : GroupOp {
  template <class Config>
  static __device__ bool in_range(const Pool& op, const ProgramShape& program) {
    return op.records > 0 && op.record < op.records &&
           (Config::kMultipliesTiles || program.limits.rows <= kTableRows);
  }

  static __device__ __forceinline__ void run(const Pool& op, const Group& group) {
    auto& scratch = *reinterpret_cast<Scratch*>(group.scratch);
    const PoolShare own = rows_of(op, group.shape.limits);
    for (uint32_t r = group.warp; r < logit_rows(group.shape.limits); r += kConsumerWarps) {
      const PassRow& row = group.rows[r];
      const bool is_pooled = row_wants_logits(row);  // the same in all lanes
      const float scale = is_pooled ? scale_of(op, group, r) : 0.0F;
      if (group.lane != 0) continue;
      scratch.scale[r] = scale;
      scratch.slot[r] = !is_pooled ? kNoSlot : row.adds != 0 ? row.slot | kAdds : row.slot;
      if (is_pooled && r >= own.begin && r < own.end)
        store(group.tensor<&Pool::sampled, SampledToken>() + r, pooled_token(row.token, scale));
    }
    group.sync();
    const PoolShare cols = columns_of(op);
    for (uint32_t col = cols.begin + group.thread; col < cols.end; col += kGroupThreads)
      add_column(op, group, scratch, col);
  }

 private:
  static constexpr uint32_t kNoSlot = ~0U, kAdds = 1U << 31;
  static_assert(kLargestSequences < kAdds);
  // Rows whose loads are in flight at the same time.
  static constexpr uint32_t kRowsAtOnce = 8;

  struct Scratch {
    float scale[kMostLogitRows];
    uint32_t slot[kMostLogitRows];  // with kAdds: the row adds; kNoSlot: the row is not pooled
  };
  static_assert(sizeof(Scratch) <= kScratchBytes);

  static __device__ __forceinline__ void store(SampledToken* to, const SampledToken& token) {
    ptx::store_relaxed(reinterpret_cast<uint32_t*>(&to->token), static_cast<uint32_t>(token.token));
    ptx::store_relaxed(&to->log_probability, token.log_probability);
  }

  // As rms_scale() computes it (instructions/common/residual.h), with all lanes of a warp.
  static __device__ __forceinline__ float scale_of(const Pool& op, const Group& group, uint32_t row) {
    const uint32_t sums = op.hidden / square_cols(group.shape.order);
    const float* squares = group.tensor<&Pool::squares, const float>() + size_t{row} * sums;
    float sum = 0;
    for (uint32_t i = 2 * group.lane; i < sums; i += 2 * kWarpThreads) {
      const float first = ptx::load_relaxed(squares + i);
      const float second = i + 1 < sums ? ptx::load_relaxed(squares + i + 1) : 0.0F;
      sum = __fadd_rn(sum, __fadd_rn(first, second));
    }
    const float mean = __fdiv_rn(residual::warp_sum(sum), static_cast<float>(op.hidden));
    return __fdiv_rn(1.0F, __fsqrt_rn(__fadd_rn(mean, op.epsilon)));
  }

  static __device__ __forceinline__ void add_column(const Pool& op, const Group& group,
                                                    const Scratch& scratch, uint32_t col) {
    const auto* values = group.tensor<&Pool::residual, const float>() + col;
    auto* pooled = group.tensor<&Pool::pooled, float>() + col;
    const float norm = ptx::bf16_low(__ldg(group.tensor<&Pool::norm, const uint16_t>() + col));
    uint32_t slot = kNoSlot;  // that `sum` is of
    float sum = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < logit_rows(group.shape.limits); first += kRowsAtOnce) {
      float x[kRowsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        const uint32_t row = min(first + i, logit_rows(group.shape.limits) - 1);
        x[i] = scratch.slot[row] == kNoSlot ? 0.0F : ptx::load_relaxed(values + size_t{row} * op.hidden);
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        if (first + i >= logit_rows(group.shape.limits) || scratch.slot[first + i] == kNoSlot) continue;
        const uint32_t next = scratch.slot[first + i] & ~kAdds;
        const bool adds = (scratch.slot[first + i] & kAdds) != 0;
        if (next != slot) {
          if (slot != kNoSlot) ptx::store_relaxed(pooled + size_t{slot} * op.hidden, sum);
          slot = next;
          if (adds) sum = ptx::load_relaxed(pooled + size_t{slot} * op.hidden);
        }
        // No fused operation: all kernels and the host give the same bits.
        const float hidden = __fmul_rn(__fmul_rn(x[i], scratch.scale[first + i]), norm);
        sum = adds ? __fadd_rn(sum, hidden) : hidden;
      }
    }
    if (slot != kNoSlot) ptx::store_relaxed(pooled + size_t{slot} * op.hidden, sum);
  }
};

}  // namespace serval::device
