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
  // A warpgroup has one head's units; a warp finishes 16 channels of a token, in two pieces.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const QkvRope& op,
                                                     const gemm::WarpTile& tile, const float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    const gemm::WarpTile part = tile.again();
    const QkvUnit first = qkv_unit(op, op.first_unit + part.unit());
    const WarpRows rows(role, op, part, first);
    const bool turns = first.part != QkvPart::kV;
    const uint32_t blocks =
        min(kValues / gemm::kStagedValues,
            (part.end_token - part.first_token + gemm::kStagedTokens - 1) / gemm::kStagedTokens);
    Angles next{};
    if (turns) next = angles_of(role, op, part, rows, 0);
#pragma unroll 1
    for (uint32_t block = 0; block < blocks; ++block) {
      const Angles angles = next;
      if (turns && block + 1 < blocks) next = angles_of(role, op, part, rows, block + 1);
      gemm::BlockSums sums = gemm::block_sums(d, block);
      scale(role, part, rows, block, sums);
      if (turns) turn(rows, angles, sums);
      store_pieces(role, op, part, first, block, sums);
    }
  }

 private:
  static constexpr uint32_t kPairs = kUnitRows / 2;         // of RoPE in a unit
  static constexpr uint32_t kNextPairs = kWarpThreads / 2;  // lanes from a pair's first channel to its second
  static constexpr uint32_t kTokens = gemm::kStagedValues / 2;  // of a lane, of a block's

  // The two rows of weights whose sums a lane has, one of each of the warp's units.
  struct WarpRows {
    bool second;    // the rows are the second channels of their pairs
    uint32_t pair;  // that the lane turns: its first unit's, or of a lane of second channels its second's
    bool has_biases;
    float biases[gemm::kWarpUnits];

    template <class Role>
    __device__ __forceinline__ WarpRows(const Role& role, const QkvRope& op, const gemm::WarpTile& part,
                                        const QkvUnit& first)
        : second(part.row_of_unit() >= kPairs),
          pair(first.index * kPairs + part.row_of_unit()),
          has_biases(serval::has_biases(op)),
          biases{} {
      if (!has_biases) return;
      const uint16_t* const from = biases_of(role, op, first) + first.head * op.head_dim;
#pragma unroll
      for (uint32_t u = 0; u < gemm::kWarpUnits; ++u) {
        const uint32_t unit = first.index + u, row = part.row_of_unit();
        const uint32_t channel = first.part == QkvPart::kV
                                     ? unit * kUnitRows + row
                                     : unit * kPairs + row % kPairs + (second ? op.head_dim / 2 : 0);
        biases[u] = __uint_as_float(uint32_t{__ldg(from + channel)} << 16);
      }
    }
  };
  // Cosines and sines of the lane's pair at its tokens of a block.
  struct Angles {
    float cosines[kTokens];
    float sines[kTokens];
  };

  template <class Role>
  static __device__ __forceinline__ Angles angles_of(const Role& role, const QkvRope& op,
                                                     const gemm::WarpTile& part, const WarpRows& rows,
                                                     uint32_t block) {
    Angles angles;
    const float* table = tensor<&QkvRope::rope, const float>(*role.buffer) + rows.pair;
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      const uint32_t token = block * gemm::kStagedTokens + part.token(t / 2, t % 2);
      const uint32_t position = gemm::workspace(role.s).positions[part.buffer][token];
      const float* from = table + size_t{position == gemm::kNoToken ? 0 : position} * op.head_dim;
      angles.cosines[t] = __ldg(from);
      angles.sines[t] = __ldg(from + op.head_dim / 2);
    }
    return angles;
  }
  template <class Role>
  static __device__ __forceinline__ void scale(const Role& role, const gemm::WarpTile& part,
                                               const WarpRows& rows, uint32_t block, gemm::BlockSums& sums) {
#pragma unroll
    for (uint32_t v = 0; v < gemm::kStagedValues; ++v) {
      const uint32_t token = block * gemm::kStagedTokens + part.token(v / 4, v % 2);
      sums.values[v] *= gemm::workspace(role.s).scales[part.buffer][token];
      if (rows.has_biases) sums.values[v] = __fadd_rn(sums.values[v], rows.biases[v / 2 % 2]);
    }
  }
  // Lanes of first and second channels swap one of their rows: each then has both channels of a pair, and
  // returns what the pair becomes in place of the two rows. The 8 lanes of a token have 8 neighbouring pairs.
  static __device__ __forceinline__ void turn(const WarpRows& rows, const Angles& angles,
                                              gemm::BlockSums& sums) {
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      float& of_first = sums.values[t / 2 * 4 + t % 2];
      float& of_second = sums.values[t / 2 * 4 + t % 2 + 2];
      const float got = __shfl_xor_sync(kAllLanes, rows.second ? of_first : of_second, kNextPairs);
      const float a = rows.second ? got : of_first, b = rows.second ? of_second : got;
      const float cosine = angles.cosines[t], sine = angles.sines[t];
      // The host rounds each product and the sum: no fused multiply-add.
      of_first = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
      of_second = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
    }
  }
  // Through shared memory, in which the warp has a place of its own: a lane then has a piece of a token.
  template <class Role>
  static __device__ __forceinline__ void store_pieces(Role& role, const QkvRope& op,
                                                      const gemm::WarpTile& part, const QkvUnit& first,
                                                      uint32_t block, const gemm::BlockSums& sums) {
    auto& work = gemm::workspace(role.s);
    const uint32_t place = ptx::shared_address(work.staged[part.warpgroup][block % gemm::kBuffers]) +
                           (part.warp * kWarpThreads + part.lane) * slab_image::kPieceBytes;
    uint32_t pieces[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) pieces[i] = ptx::pack_bf16(sums.values[i * 2], sums.values[i * 2 + 1]);
    ptx::store_matrices<true>(place, pieces);
    __syncwarp();
    const uint4 piece = ptx::shared_load(place);
    const uint32_t token = block * gemm::kStagedTokens + part.lane / 16 * 8 + part.lane % 8;
    if (work.positions[part.buffer][token] == gemm::kNoToken) return;
    const uint32_t of_token = part.lane / 8 % 2;
    const uint32_t channel = first.part == QkvPart::kV ? (first.index + of_token) * kUnitRows
                                                       : first.index * kPairs + of_token * (op.head_dim / 2);
    *reinterpret_cast<uint4*>(place_of(role, op, first, part, token) + channel) = piece;
  }
  // Of a token's channels of the head.
  template <class Role>
  static __device__ __forceinline__ uint16_t* place_of(const Role& role, const QkvRope& op,
                                                       const QkvUnit& first, const gemm::WarpTile& part,
                                                       uint32_t token) {
    if (first.part == QkvPart::kQ) {
      const size_t row = part.first_token + token;
      return tensor<&QkvRope::q, uint16_t>(*role.buffer) + (row * op.q_heads + first.head) * op.head_dim;
    }
    auto* const cache = first.part == QkvPart::kK ? tensor<&QkvRope::k_cache, uint16_t>(*role.buffer)
                                                  : tensor<&QkvRope::v_cache, uint16_t>(*role.buffer);
    return cache + place_in_cache(op, first.head, gemm::workspace(role.s).places[part.buffer][token]);
  }
  template <class Role>
  static __device__ __forceinline__ const uint16_t* biases_of(const Role& role, const QkvRope& op,
                                                              const QkvUnit& u) {
    return u.part == QkvPart::kQ   ? tensor<&QkvRope::q_bias, const uint16_t>(*role.buffer)
           : u.part == QkvPart::kK ? tensor<&QkvRope::k_bias, const uint16_t>(*role.buffer)
                                   : tensor<&QkvRope::v_bias, const uint16_t>(*role.buffer);
  }
  static __device__ __forceinline__ size_t place_in_cache(const QkvRope& op, uint32_t head, uint32_t place) {
    return kv_offset(place / kKvBlockTokens, head, place % kKvBlockTokens, op.kv_heads, op.head_dim);
  }
};

}  // namespace serval::device
