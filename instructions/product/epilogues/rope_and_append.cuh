// Queries, keys and values: biases, RoPE on Q and K, K and V appended to the cache.
#pragma once

#include <cstdint>

#include "instructions/common/qkv_heads.h"
#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"
#include "vm/layout/kv_cache.h"
#include "vm/layout/slab_image.h"
#include "vm/ptx/ptx.cuh"

namespace serval::device::epilogues {

using tile_stream::WarpTile;

// Op has the operands of touch_qkv_outputs() (instructions/common/qkv_heads.h).
template <class Op>
struct RopeAndAppend {
  const Op& op;

  struct Fetched {
    float cosine, sine;  // of the angle of the output's pair
    float bias;          // if there are biases
    uint32_t is_turned;  // 1: Q or K
    uint16_t* to;        // destination of the output
  };
  template <class Role>
  __device__ __forceinline__ Fetched fetch_constant(const Role& role,
                                                    const vector_stream::Output& out) const {
    Fetched fetched{};
    if (!out.wanted) return fetched;
    const HeadShape heads = heads_of(role);
    const QkvUnit u = qkv_unit(heads, op.first_unit + out.unit);
    const PassRow& row = role.s.rows[out.row];
    uint32_t channel = u.index * kUnitRows + out.row_of_unit;
    if (u.part != QkvPart::kV) {
      const uint32_t pair = u.index * kPairs + out.row_of_unit % kPairs;
      const float* cosines =
          tensor<&Op::rope, const float>(*role.buffer) + size_t{row.position} * heads.head_dim + pair;
      fetched.cosine = ptx::load_constant(cosines);
      fetched.sine = ptx::load_constant(cosines + heads.head_dim / 2);
      fetched.is_turned = 1;
      channel = pair + (out.row_of_unit < kPairs ? 0 : heads.head_dim / 2);
    }
    if (has_biases(op)) {
      const uint16_t* const biases = u.part == QkvPart::kQ ? tensor<&Op::q_bias, const uint16_t>(*role.buffer)
                                     : u.part == QkvPart::kK
                                         ? tensor<&Op::k_bias, const uint16_t>(*role.buffer)
                                         : tensor<&Op::v_bias, const uint16_t>(*role.buffer);
      fetched.bias = __uint_as_float(uint32_t{__ldg(biases + u.head * heads.head_dim + channel)} << 16);
    }
    uint16_t* const to = u.part == QkvPart::kQ
                             ? tensor<&Op::q, uint16_t>(*role.buffer) +
                                   (size_t{out.row} * heads.q_heads + u.head) * heads.head_dim
                             : token_in_cache(role, u, row);
    fetched.to = to + channel;
    return fetched;
  }

  template <class Role>
  __device__ __forceinline__ void store(const Role&, const vector_stream::Output& out,
                                        const vector_stream::Sums& sums, const Fetched& fetched) const {
    const float mine = has_biases(op) ? __fadd_rn(sums.first, fetched.bias) : sums.first;
    const float other = __shfl_xor_sync(~0u, mine, kPairs);
    // The host rounds each product and the sum, so no fused multiply-add.
    const float cosine = __fmul_rn(mine, fetched.cosine), sine = __fmul_rn(other, fetched.sine);
    const float turned = out.row_of_unit < kPairs ? __fsub_rn(cosine, sine) : __fadd_rn(cosine, sine);
    const float value = fetched.is_turned == 1 ? turned : mine;
    if (!out.wanted) return;
    ptx::store_relaxed(fetched.to, static_cast<uint16_t>(ptx::pack_bf16(value, 0)));
  }

  // A warpgroup has one head's units; a warp finishes 16 channels of a token, in two pieces.
  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const {
    if (!tile_stream::has_units(tile, op.num_units)) return;
    const tile_stream::WarpTile part = tile.reread_thread();
    const QkvUnit first = qkv_unit(heads_of(role), op.first_unit + part.unit());
    const WarpRows rows(role, op, part, first);
    const Pieces pieces(role, op, part, first);
    const bool turns = first.part != QkvPart::kV;
    const float* angles_of_pair = tensor<&Op::rope, const float>(*role.buffer) + rows.pair;
    Angles next{};
    if (turns) next = angles_of(role, op, part, angles_of_pair, 0);
    constexpr uint32_t kBlocks = kValues / tile_stream::kStagedValues;
#pragma unroll 1
    for (uint32_t first = 0; first < kBlocks; first += kBlocksTogether) {
      if (part.first_token + first * tile_stream::kStagedTokens >= part.end_token) break;
#pragma unroll
      for (uint32_t n = 0; n < kBlocksTogether; ++n) {
        const uint32_t block = first + n;
        const Angles angles = next;
        if (turns && block + 1 < kBlocks) next = angles_of(role, op, part, angles_of_pair, block + 1);
        BlockSums sums;
#pragma unroll
        for (uint32_t v = 0; v < tile_stream::kStagedValues; ++v)
          sums[v] = d[n * tile_stream::kStagedValues + v];
        scale(role, part, rows, block, sums);
        if (turns) turn(rows, angles, sums);
        pieces.put(block, sums);
      }
      tile_stream::shift_sums<kBlocksTogether * tile_stream::kStagedValues>(d);
      pieces.store(role, part, first);
    }
    role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last one here
  }

 private:
  // The program's heads. A kernel that is compiled for one head size has it as a constant.
  template <class Role>
  static __device__ __forceinline__ HeadShape heads_of(const Role& role) {
    HeadShape heads = role.s.shape.heads;
    if constexpr (Role::Config::kHeadDim != 0) heads.head_dim = Role::Config::kHeadDim;
    return heads;
  }

  // Address of a row's token in the K or V cache, for a head.
  template <class Role>
  static __device__ __forceinline__ uint16_t* token_in_cache(const Role& role, const QkvUnit& u,
                                                             const PassRow& row) {
    const HeadShape heads = heads_of(role);
    const auto* table = tensor<&Op::block_table, const uint32_t>(*role.buffer);
    const uint32_t block =
        ptx::load_relaxed(table + size_t{row.slot} * blocks_for_tokens(role.s.shape.limits.max_context) +
                          row.position / kKvBlockTokens);
    uint16_t* const cache = u.part == QkvPart::kK ? tensor<&Op::k_cache, uint16_t>(*role.buffer)
                                                  : tensor<&Op::v_cache, uint16_t>(*role.buffer);
    return cache + kv_offset(block, u.head, row.position % kKvBlockTokens, heads.kv_heads, heads.head_dim);
  }

  static constexpr uint32_t kPairs = kUnitRows / 2;         // RoPE pairs in a unit
  static constexpr uint32_t kNextPairs = kWarpThreads / 2;  // lanes from a pair's first channel to its second
  static constexpr uint32_t kTokens = tile_stream::kStagedValues / 2;  // tokens of a lane in a block
  static constexpr uint32_t kBlocksTogether = 2;                       // blocks that are stored together
  using BlockSums = float[tile_stream::kStagedValues];

  // The two rows of weights whose sums a lane has, one of each of the warp's units.
  struct WarpRows {
    bool second;    // the rows are the second channels of their pairs
    uint32_t pair;  // the pair that the lane rotates: its first unit's; in lanes of second channels its
                    // second unit's
    bool has_biases;
    float biases[tile_stream::kWarpUnits];

    template <class Role>
    __device__ __forceinline__ WarpRows(const Role& role, const Op& op, const tile_stream::WarpTile& part,
                                        const QkvUnit& first)
        : second(part.row_of_unit() >= kPairs),
          pair(first.index * kPairs + part.row_of_unit()),
          has_biases(serval::has_biases(op)),
          biases{} {
      if (!has_biases) return;
      const HeadShape heads = heads_of(role);
      const uint16_t* const from = biases_of(role, op, first) + first.head * heads.head_dim;
#pragma unroll
      for (uint32_t u = 0; u < tile_stream::kWarpUnits; ++u) {
        const uint32_t unit = first.index + u, row = part.row_of_unit();
        const uint32_t channel = first.part == QkvPart::kV
                                     ? unit * kUnitRows + row
                                     : unit * kPairs + row % kPairs + (second ? heads.head_dim / 2 : 0);
        biases[u] = __uint_as_float(uint32_t{__ldg(from + channel)} << 16);
      }
    }
  };
  // Cosines and sines of the lane's pair at its tokens of a block.
  struct Angles {
    float cosines[kTokens];
    float sines[kTokens];
  };

  // The storers' look-up for the lane's first token of a block; next_token() leads to the others.
  template <class T>
  static __device__ __forceinline__ const T* of_block(const T* of_tile, const tile_stream::WarpTile& part,
                                                      uint32_t block) {
    return of_tile + block * tile_stream::kStagedTokens + part.token(0, 0);
  }
  static __device__ __forceinline__ constexpr uint32_t next_token(uint32_t t) {
    return t / 2 * 8 + t % 2;
  }

  // `of_pair`: angles of the lane's pair at position 0.
  template <class Role>
  static __device__ __forceinline__ Angles angles_of(const Role& role, const Op& op,
                                                     const tile_stream::WarpTile& part, const float* of_pair,
                                                     uint32_t block) {
    const uint32_t* positions = of_block(tile_stream::workspace(role.s).positions[part.buffer], part, block);
    const uint32_t head_dim = heads_of(role).head_dim;
    Angles angles;
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      const uint32_t position = positions[next_token(t)];
      const float* from = of_pair + size_t{position == tile_stream::kNoToken ? 0 : position} * head_dim;
      angles.cosines[t] = ptx::load_constant(from);
      angles.sines[t] = ptx::load_constant(from + head_dim / 2);
    }
    return angles;
  }
  template <class Role>
  static __device__ __forceinline__ void scale(const Role& role, const tile_stream::WarpTile& part,
                                               const WarpRows& rows, uint32_t block, BlockSums& sums) {
    const float* scales = of_block(tile_stream::workspace(role.s).scales[part.buffer], part, block);
#pragma unroll
    for (uint32_t v = 0; v < tile_stream::kStagedValues; ++v)
      sums[v] *= scales[next_token(v / 4 * 2 + v % 2)];
    if (!rows.has_biases) return;
#pragma unroll
    for (uint32_t v = 0; v < tile_stream::kStagedValues; ++v)
      sums[v] = __fadd_rn(sums[v], rows.biases[v / 2 % 2]);
  }
  // Lanes of first and second channels swap one of their rows: then each has both channels of a pair, and
  // replaces the two rows by the rotated pair. The 8 lanes of a token have 8 neighbouring pairs.
  static __device__ __forceinline__ void turn(const WarpRows& rows, const Angles& angles, BlockSums& sums) {
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      float& of_first = sums[t / 2 * 4 + t % 2];
      float& of_second = sums[t / 2 * 4 + t % 2 + 2];
      const float got = __shfl_xor_sync(kAllLanes, rows.second ? of_first : of_second, kNextPairs);
      const float a = rows.second ? got : of_first, b = rows.second ? of_second : got;
      const float cosine = angles.cosines[t], sine = angles.sines[t];
      // The host rounds each product and the sum, so no fused multiply-add.
      of_first = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
      of_second = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
    }
  }
  // Moves a warpgroup's results through shared memory so that stores fill sectors: 64 channels of a token in
  // 8 pieces. A warp writes two of them, a thread stores one. For Q and K the first four pieces are the first
  // channels of RoPE pairs and the last four the second channels.
  //
  // At the destination a token is one row: a row of the pass for Q, a row of a KV head's cache block for K
  // and V, which storers looked up.
  class Pieces {
   public:
    template <class Role>
    __device__ __forceinline__ Pieces(const Role& role, const Op& op, const tile_stream::WarpTile& part,
                                      const QkvUnit& first) {
      const HeadShape heads = heads_of(role);
      const bool turns = first.part != QkvPart::kV;
      const uint32_t thread = part.warp * kWarpThreads + part.lane, piece = thread % kCount;
      const uint32_t first_unit = first.index - part.warp * tile_stream::kWarpUnits;  // in the warpgroup
      const uint32_t channel = turns ? first_unit * kPairs + piece % (kCount / 2) * kUnitRows +
                                           piece / (kCount / 2) * (heads.head_dim / 2)
                                     : (first_unit + piece) * kUnitRows;
      in_cache_ = first.part != QkvPart::kQ;
      const uint32_t head_channels = in_cache_ ? kKvBlockTokens * heads.head_dim : heads.head_dim;
      to_ = (first.part == QkvPart::kQ   ? tensor<&Op::q, uint16_t>(*role.buffer)
             : first.part == QkvPart::kK ? tensor<&Op::k_cache, uint16_t>(*role.buffer)
                                         : tensor<&Op::v_cache, uint16_t>(*role.buffer)) +
            size_t{first.head} * head_channels + channel;
      const uint32_t staged = ptx::shared_address(tile_stream::workspace(role.s).staged[part.warpgroup]);
      // stmatrix stores four matrices: two of the first 8 tokens, two of the next 8. Each lane gives the
      // address of one row.
      const uint32_t which = part.lane / 8 % 2, token = part.lane / 16 * 8 + part.lane % 8;
      put_ = staged + place(token, turns ? which * (kCount / 2) + part.warp : part.warp * 2 + which);
      token_ = thread / kCount;
      take_ = staged + place(token_, piece);
    }

    __device__ __forceinline__ void put(uint32_t block, const BlockSums& sums) const {
      uint32_t pieces[4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) pieces[i] = ptx::pack_bf16(sums[i * 2], sums[i * 2 + 1]);
      ptx::store_matrices<true>(put_ + offset(block), pieces);
    }
    // Stores kBlocksTogether blocks, beginning with block `first`.
    template <class Role>
    __device__ __forceinline__ void store(Role& role, const tile_stream::WarpTile& part,
                                          uint32_t first) const {
      auto& work = tile_stream::workspace(role.s);
      bool exist[kBlocksTogether];
      uint32_t rows[kBlocksTogether];
#pragma unroll
      for (uint32_t n = 0; n < kBlocksTogether; ++n) {
        const uint32_t token = (first + n) * tile_stream::kStagedTokens + token_;
        exist[n] = work.positions[part.buffer][token] != tile_stream::kNoToken;
        rows[n] = in_cache_ ? work.places[part.buffer][token] : part.first_token + token;
      }
      role.sync_warpgroup();
      const HeadShape heads = heads_of(role);
      const uint32_t row_channels = in_cache_ ? heads.head_dim : heads.q_cols();
#pragma unroll
      for (uint32_t n = 0; n < kBlocksTogether; ++n) {
        const uint4 piece = ptx::shared_load(take_ + offset(first + n));
        if (exist[n]) *reinterpret_cast<uint4*>(to_ + size_t{rows[n]} * row_channels) = piece;
      }
    }

   private:
    static constexpr uint32_t kCount = tile_stream::kWarpgroupUnits;  // pieces of a token

    static __device__ __forceinline__ uint32_t place(uint32_t token, uint32_t piece) {
      return (token * kCount + (piece ^ token % kCount)) * slab_image::kPieceBytes;
    }
    // Offset of a block in the warpgroup's buffers.
    static __device__ __forceinline__ constexpr uint32_t offset(uint32_t block) {
      constexpr uint32_t kBlockBytes = tile_stream::kStagedTokens * kCount * slab_image::kPieceBytes;
      static_assert(2 * kBlocksTogether * kBlockBytes == tile_stream::kBuffers * tile_stream::kStagedTokens *
                                                             tile_stream::kStagedRowFloats * sizeof(float));
      return block % (2 * kBlocksTogether) * kBlockBytes;
    }

    uint16_t* to_;         // of row 0
    uint32_t put_, take_;  // of a buffer's first block
    uint32_t token_;       // index in a block
    bool in_cache_;
  };
  template <class Role>
  static __device__ __forceinline__ const uint16_t* biases_of(const Role& role, const Op& op,
                                                              const QkvUnit& u) {
    return u.part == QkvPart::kQ   ? tensor<&Op::q_bias, const uint16_t>(*role.buffer)
           : u.part == QkvPart::kK ? tensor<&Op::k_bias, const uint16_t>(*role.buffer)
                                   : tensor<&Op::v_bias, const uint16_t>(*role.buffer);
  }
};

}  // namespace serval::device::epilogues
