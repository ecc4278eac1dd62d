// qkv_rope in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/qkv_rope/op.h"
#include "vm/layout/kv_cache.h"

namespace serval::device {

template <>
struct GemmOp<QkvRope> {
  static __device__ bool in_range(const QkvRope& op) {
    return (op.head_dim == 64 || op.head_dim == 128) &&
           gemm::units_in_range(op.first_unit, op.num_units, gemm::kTileUnits,
                                (op.q_heads + 2 * op.kv_heads) * (op.head_dim / kUnitRows)) &&
           gemm::rows_in_range(op);
  }
  // A head of 128 channels fills a tile; two of 64 may be of different matrices.
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const QkvRope& op) {
    return {.activations = tensor<&QkvRope::weighted, const std::byte>(buffer),
            .squares = tensor<&QkvRope::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .image_rows = op.max_rows,
            .first_row = op.first_row,
            .end_row = op.first_row + op.num_rows,
            .units = op.head_dim < 128 && op.num_units > gemm::kWarpgroupUnits
                         ? gemm::Units::kNeighboursApart
                         : gemm::neighbours(op.num_units),
            .cols = op.hidden,
            .logits_only = 0,
            .adds = 0,
            .block_table = tensor<&QkvRope::block_table, const uint32_t>(buffer),
            .blocks_of_sequence = blocks_for_tokens(op.max_context)};
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const QkvRope& op, uint32_t half) {
    const QkvUnit u = qkv_unit(op, op.first_unit + half * gemm::kWarpgroupUnits);
    const TensorId matrix = u.part == QkvPart::kQ ? op.wq : u.part == QkvPart::kK ? op.wk : op.wv;
    const bool halves = op.head_dim < 128 || op.num_units <= gemm::kWarpgroupUnits;
    return {gemm::tensor_map(program, matrix, halves), u.head * (op.head_dim / kUnitRows) + u.index};
  }
  // A warpgroup has one head's units: each thread finishes 8 neighbouring channels of a token at a time.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const QkvRope& op,
                                                     const gemm::WarpTile& tile, const float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    const QkvUnit first = qkv_unit(op, op.first_unit + tile.warpgroup * gemm::kWarpgroupUnits);
    if (first.part == QkvPart::kV)
      store_values(role, op, tile, first, d);
    else
      store_turned(role, op, tile, first, d);
  }

 private:
  static constexpr uint32_t kPairs = kUnitRows / 2;  // of RoPE in a unit

  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void store_values(Role& role, const QkvRope& op,
                                                      const gemm::WarpTile& tile, const QkvUnit& first,
                                                      const float (&d)[kValues]) {
    const auto finish = [&](uint32_t block, const float* staged, const gemm::UnitOfToken& mine, bool exists) {
      if (!exists) return;
      const auto& work = gemm::workspace(role.s);
      const uint32_t token = block * gemm::kStagedTokens + mine.token;
      const uint32_t channel = (first.index + mine.unit) * kUnitRows;
      float values[kUnitRows];
      gemm::load_unit(values, staged, mine.token, mine.unit);
      const float scale = work.scales[tile.buffer][token];
#pragma unroll
      for (float& value : values) value *= scale;
      if (const uint16_t* const biases = biases_of(role, op, first, channel); biases != nullptr) {
#pragma unroll
        for (uint32_t i = 0; i < kUnitRows; ++i) values[i] = with_bias(values[i], biases + i);
      }
      auto* cache = tensor<&QkvRope::v_cache, uint16_t>(*role.buffer) + channel;
      store(cache + place_in_cache(op, first.head, work.places[tile.buffer][token]), values);
    };
    gemm::for_staged<gemm::UnitOfToken>(role, tile, d, finish);
  }

  // Of 8 channels, 4 pairs are of one unit and 4 of the next; a pair's other channel is half a head away.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void store_turned(Role& role, const QkvRope& op,
                                                      const gemm::WarpTile& tile, const QkvUnit& first,
                                                      const float (&d)[kValues]) {
    const auto finish = [&](uint32_t block, const float* staged, const gemm::UnitOfToken& mine, bool exists) {
      if (!exists) return;
      const auto& work = gemm::workspace(role.s);
      const uint32_t token = block * gemm::kStagedTokens + mine.token;
      const bool high = mine.unit >= kPairs;  // the second channels of its pairs
      const uint32_t unit = mine.unit % kPairs * 2, pair = (first.index + unit) * kPairs;
      const float* angles = tensor<&QkvRope::rope, const float>(*role.buffer) + pair +
                            size_t{work.positions[tile.buffer][token]} * op.head_dim;
      const uint16_t* const biases = biases_of(role, op, first, pair);
      const float scale = work.scales[tile.buffer][token];
      float values[kUnitRows];
#pragma unroll
      for (uint32_t u = 0; u < 2; ++u) {
        float of_unit[kUnitRows];
        gemm::load_unit(of_unit, staged, mine.token, unit + u);
        const float4 c = __ldg(reinterpret_cast<const float4*>(angles) + u);
        const float4 s = __ldg(reinterpret_cast<const float4*>(angles + op.head_dim / 2) + u);
        const float cosine[kPairs] = {c.x, c.y, c.z, c.w}, sine[kPairs] = {s.x, s.y, s.z, s.w};
#pragma unroll
        for (uint32_t i = 0; i < kPairs; ++i) {
          float a = of_unit[i] * scale, b = of_unit[i + kPairs] * scale;
          if (biases != nullptr) {
            a = with_bias(a, biases + u * kPairs + i);
            b = with_bias(b, biases + op.head_dim / 2 + u * kPairs + i);
          }
          // The host rounds each product and the sum: no fused multiply-add.
          values[u * kPairs + i] = high ? __fadd_rn(__fmul_rn(b, cosine[i]), __fmul_rn(a, sine[i]))
                                        : __fsub_rn(__fmul_rn(a, cosine[i]), __fmul_rn(b, sine[i]));
        }
      }
      const uint32_t channel = pair + (high ? op.head_dim / 2 : 0);
      if (first.part == QkvPart::kQ) {
        const size_t row = tile.first_token + token;
        store(tensor<&QkvRope::q, uint16_t>(*role.buffer) + (row * op.q_heads + first.head) * op.head_dim +
                  channel,
              values);
      } else {
        store(tensor<&QkvRope::k_cache, uint16_t>(*role.buffer) + channel +
                  place_in_cache(op, first.head, work.places[tile.buffer][token]),
              values);
      }
    };
    gemm::for_staged<gemm::UnitOfToken>(role, tile, d, finish);
  }

  // Of a head's channels from `channel` on; null where there are none.
  template <class Role>
  static __device__ __forceinline__ const uint16_t* biases_of(const Role& role, const QkvRope& op,
                                                              const QkvUnit& u, uint32_t channel) {
    if (!has_biases(op)) return nullptr;
    const uint16_t* const biases =
        u.part == QkvPart::kQ   ? tensor<&QkvRope::q_bias, const uint16_t>(*role.buffer)
        : u.part == QkvPart::kK ? tensor<&QkvRope::k_bias, const uint16_t>(*role.buffer)
                                : tensor<&QkvRope::v_bias, const uint16_t>(*role.buffer);
    return biases + u.head * op.head_dim + channel;
  }
  static __device__ __forceinline__ float with_bias(float value, const uint16_t* bf16) {
    return __fadd_rn(value, __uint_as_float(uint32_t{__ldg(bf16)} << 16));
  }
  static __device__ __forceinline__ size_t place_in_cache(const QkvRope& op, uint32_t head, uint32_t place) {
    return kv_offset(place / kKvBlockTokens, head, place % kKvBlockTokens, op.kv_heads, op.head_dim);
  }
  static __device__ __forceinline__ void store(uint16_t* to, const float (&values)[kUnitRows]) {
    *reinterpret_cast<uint4*>(to) = {
        ptx::pack_bf16(values[0], values[1]), ptx::pack_bf16(values[2], values[3]),
        ptx::pack_bf16(values[4], values[5]), ptx::pack_bf16(values[6], values[7])};
  }
};

}  // namespace serval::device
