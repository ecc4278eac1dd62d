#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/qkv_rope/op.h"
#include "vm/kv_cache.h"

namespace serval::device {

template <>
struct DeviceOp<QkvRope> : MatvecOp<DeviceOp<QkvRope>> {
  static constexpr uint32_t kMatrices = 1;
  static constexpr uint32_t kPairs = kUnitRows / 2;  // of RoPE in a unit

  static __device__ __forceinline__ uint32_t cols(const QkvRope& op) { return op.hidden; }
  static __device__ __forceinline__ uint32_t units(const QkvRope& op) {
    return (op.q_heads + 2 * op.kv_heads) * (op.head_dim / kUnitRows);
  }
  static __device__ __forceinline__ matvec::Input input(const RecordSlot& slot, const QkvRope& op) {
    return {.activations = tensor<&QkvRope::weighted, const std::byte>(slot),
            .squares = tensor<&QkvRope::squares, const float>(slot),
            .epsilon = op.epsilon,
            .logits_only = false};
  }
  // Images of Q and K have their rows in the order of the units (RowOrder::kRotaryPairs).
  static __device__ __forceinline__ const std::byte* image(const RecordSlot& slot, const QkvRope& op,
                                                           uint32_t, uint32_t& unit) {
    const QkvUnit u = qkv_unit(op, unit);
    unit = u.head * (op.head_dim / kUnitRows) + u.index;
    switch (u.part) {
      case QkvPart::kQ:
        return tensor<&QkvRope::wq, const std::byte>(slot);
      case QkvPart::kK:
        return tensor<&QkvRope::wk, const std::byte>(slot);
      default:
        return tensor<&QkvRope::wv, const std::byte>(slot);
    }
  }

  // Cosine and sine of the angle of an output's pair, and the KV block that its row's K and V go to.
  static __device__ __forceinline__ matvec::Extra fetch_extra(const StorerRole& role, const QkvRope& op,
                                                              const matvec::Output& out) {
    matvec::Extra extra{1, 0, 0};
    if (!out.wanted) return extra;
    const QkvUnit u = qkv_unit(op, op.first_unit + out.unit);
    const PassRow& row = role.s.rows[out.row];
    if (u.part != QkvPart::kV) {
      const float* cosines = tensor<&QkvRope::rope, const float>(*role.slot) +
                             size_t{row.position} * op.head_dim + u.index * kPairs + out.row_of_unit % kPairs;
      extra.first = ptx::load_constant(cosines);
      extra.second = ptx::load_constant(cosines + op.head_dim / 2);
    }
    if (u.part != QkvPart::kQ) {
      const auto* table = tensor<&QkvRope::block_table, const uint32_t>(*role.slot);
      extra.third = ptx::load_relaxed(table + size_t{row.slot} * blocks_for_tokens(op.max_context) +
                                      row.position / kKvBlockTokens);
    }
    return extra;
  }

  static __device__ __forceinline__ void store_output(const StorerRole& role, const QkvRope& op,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const matvec::Extra& extra) {
    const QkvUnit u = qkv_unit(op, op.first_unit + out.unit);
    const float mine = sums.first;
    const float other = __shfl_xor_sync(~0u, mine, kPairs);
    const bool second = out.row_of_unit >= kPairs;
    if (!out.wanted) return;
    const PassRow& row = role.s.rows[out.row];
    // The host rounds each product and the sum: no fused multiply-add.
    const float turned = second ? __fadd_rn(__fmul_rn(mine, extra.first), __fmul_rn(other, extra.second))
                                : __fsub_rn(__fmul_rn(mine, extra.first), __fmul_rn(other, extra.second));
    if (u.part == QkvPart::kV) {
      put(cache<&QkvRope::v_cache>(role, op, u, row, extra) + u.index * kUnitRows + out.row_of_unit, mine);
      return;
    }
    const uint32_t channel = u.index * kPairs + out.row_of_unit % kPairs + (second ? op.head_dim / 2 : 0);
    if (u.part == QkvPart::kK) {
      put(cache<&QkvRope::k_cache>(role, op, u, row, extra) + channel, turned);
    } else {
      put(tensor<&QkvRope::q, uint16_t>(*role.slot) + (size_t{out.row} * op.q_heads + u.head) * op.head_dim +
              channel,
          turned);
    }
  }

 private:
  static __device__ __forceinline__ void put(uint16_t* to, float value) {
    ptx::store_relaxed(to, static_cast<uint16_t>(ptx::pack_bf16(value, 0)));
  }
  template <auto Cache>
  static __device__ __forceinline__ uint16_t* cache(const StorerRole& role, const QkvRope& op,
                                                    const QkvUnit& u, const PassRow& row,
                                                    const matvec::Extra& extra) {
    return tensor<Cache, uint16_t>(*role.slot) +
           kv_offset(extra.third, u.head, row.position % kKvBlockTokens, op.kv_heads, op.head_dim);
  }
};

}  // namespace serval::device
