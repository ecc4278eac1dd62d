#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/qkv_rope/op.h"
#include "vm/layout/kv_cache.h"

namespace serval::device {

template <>
struct DeviceOp<QkvRope> : MatvecOp<DeviceOp<QkvRope>> {
  static constexpr uint32_t kMatrices = 1;
  static constexpr uint32_t kPairs = kUnitRows / 2;  // of RoPE in a unit

  static __device__ __forceinline__ uint32_t cols(const QkvRope& op) { return op.hidden; }
  static __device__ __forceinline__ uint32_t units(const QkvRope& op) {
    return (op.q_heads + 2 * op.kv_heads) * (op.head_dim / kUnitRows);
  }
  static __device__ __forceinline__ matvec::Input input(const RecordBuffer& buffer, const QkvRope& op) {
    return {.activations = tensor<&QkvRope::weighted, const std::byte>(buffer),
            .squares = tensor<&QkvRope::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .logits_only = false};
  }
  // Images of Q and K have their rows in the order of the units (RowOrder::kRotaryPairs).
  static __device__ __forceinline__ const std::byte* image(const RecordBuffer& buffer, const QkvRope& op,
                                                           uint32_t, uint32_t& unit) {
    const QkvUnit u = qkv_unit(op, unit);
    unit = u.head * (op.head_dim / kUnitRows) + u.index;
    switch (u.part) {
      case QkvPart::kQ:
        return tensor<&QkvRope::wq, const std::byte>(buffer);
      case QkvPart::kK:
        return tensor<&QkvRope::wk, const std::byte>(buffer);
      default:
        return tensor<&QkvRope::wv, const std::byte>(buffer);
    }
  }

  struct Fetched {
    float cosine, sine;  // of the angle of the output's pair
    float bias;          // where there are biases
    uint32_t is_turned;  // 1: Q or K
    uint16_t* to;        // where the output goes
  };
  template <class Role>
  static __device__ __forceinline__ Fetched fetch_constant(const Role& role, const QkvRope& op,
                                                           const matvec::Output& out) {
    Fetched fetched{};
    if (!out.wanted) return fetched;
    const QkvUnit u = qkv_unit(op, op.first_unit + out.unit);
    const PassRow& row = role.s.rows[out.row];
    uint32_t channel = u.index * kUnitRows + out.row_of_unit;
    if (u.part != QkvPart::kV) {
      const uint32_t pair = u.index * kPairs + out.row_of_unit % kPairs;
      const float* cosines =
          tensor<&QkvRope::rope, const float>(*role.buffer) + size_t{row.position} * op.head_dim + pair;
      fetched.cosine = ptx::load_constant(cosines);
      fetched.sine = ptx::load_constant(cosines + op.head_dim / 2);
      fetched.is_turned = 1;
      channel = pair + (out.row_of_unit < kPairs ? 0 : op.head_dim / 2);
    }
    if (has_biases(op)) {
      const uint16_t* const biases =
          u.part == QkvPart::kQ   ? tensor<&QkvRope::q_bias, const uint16_t>(*role.buffer)
          : u.part == QkvPart::kK ? tensor<&QkvRope::k_bias, const uint16_t>(*role.buffer)
                                  : tensor<&QkvRope::v_bias, const uint16_t>(*role.buffer);
      fetched.bias = __uint_as_float(uint32_t{__ldg(biases + u.head * op.head_dim + channel)} << 16);
    }
    uint16_t* const to = u.part == QkvPart::kQ ? tensor<&QkvRope::q, uint16_t>(*role.buffer) +
                                                     (size_t{out.row} * op.q_heads + u.head) * op.head_dim
                                               : token_in_cache(role, op, u, row);
    fetched.to = to + channel;
    return fetched;
  }

  template <class Role>
  static __device__ __forceinline__ void store_output(const Role&, const QkvRope& op,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const Fetched& fetched) {
    const float mine = has_biases(op) ? __fadd_rn(sums.first, fetched.bias) : sums.first;
    const float other = __shfl_xor_sync(~0u, mine, kPairs);
    // The host rounds each product and the sum: no fused multiply-add.
    const float cosine = __fmul_rn(mine, fetched.cosine), sine = __fmul_rn(other, fetched.sine);
    const float turned = out.row_of_unit < kPairs ? __fsub_rn(cosine, sine) : __fadd_rn(cosine, sine);
    const float value = fetched.is_turned == 1 ? turned : mine;
    if (!out.wanted) return;
    ptx::store_relaxed(fetched.to, static_cast<uint16_t>(ptx::pack_bf16(value, 0)));
  }

 private:
  // K or V of a row's token for a head.
  template <class Role>
  static __device__ __forceinline__ uint16_t* token_in_cache(const Role& role, const QkvRope& op,
                                                             const QkvUnit& u, const PassRow& row) {
    const auto* table = tensor<&QkvRope::block_table, const uint32_t>(*role.buffer);
    const uint32_t block = ptx::load_relaxed(table + size_t{row.slot} * blocks_for_tokens(op.max_context) +
                                             row.position / kKvBlockTokens);
    uint16_t* const cache = u.part == QkvPart::kK ? tensor<&QkvRope::k_cache, uint16_t>(*role.buffer)
                                                  : tensor<&QkvRope::v_cache, uint16_t>(*role.buffer);
    return cache + kv_offset(block, u.head, row.position % kKvBlockTokens, op.kv_heads, op.head_dim);
  }
};

}  // namespace serval::device
