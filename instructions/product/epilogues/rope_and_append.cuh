// Queries, keys and values: biases, RoPE on Q and K, K and V appended to the cache.
#pragma once

#include <cstdint>

#include "instructions/common/qkv_heads.h"
#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"
#include "vm/layout/kv_cache.h"
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

  // A warpgroup has one head's units. Sums go through shared memory, 16 tokens at a time; then a thread has a
  // unit of a token: four pairs of channels that RoPE turns, or 8 channels of V.
  //
  // Blocks are unrolled, because a loop would keep all sums in registers until its end. Staged sums leave
  // registers in which the angles of later blocks are on their way; the role's counts would take others.
  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const {
    if (!tile_stream::has_units(tile, op.num_units)) return;
    constexpr uint32_t kBlocks = kValues / tile_stream::kStagedValues;
    const WarpTile part = tile.reread_thread();
    const tile_stream::UnitOfToken mine(part);
    const TileUnit unit(role, op, mine);
    auto& work = tile_stream::workspace(role.s);
    auto& staged = work.staged[part.warpgroup];
    const uint32_t* positions = work.positions[part.buffer] + mine.token;
    Angles angles[kBlocks];
    const auto put = [&](uint32_t block) {
      using Sums = float[tile_stream::kStagedValues];
      if (block < kBlocks)
        tile_stream::put_block(staged[block % tile_stream::kBuffers], part,
                               reinterpret_cast<Sums&>(d[block * tile_stream::kStagedValues]));
    };
    const auto load = [&](uint32_t block) {
      if (block < kBlocks) unit.load(angles[block], positions[block * tile_stream::kStagedTokens]);
    };
    role.save_counts();
    put(0);
    load(0);
#pragma unroll
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const uint32_t first = block * tile_stream::kStagedTokens;
      if (part.first_token + first >= part.end_token) break;
      role.sync_warpgroup();  // the block is staged, and the one before it has been read
      put(block + 1);
      if (block < 2) load(block + 1);
      if (block > 0) load(block + 2);
      float values[kUnitRows];
      tile_stream::load_unit(values, staged[block % tile_stream::kBuffers], mine.token, mine.unit);
      unit.finish(role, part, first + mine.token, angles[block], values);
    }
    role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last one here
    const uint32_t parity = role.warpgroup_parity;
    role.restore_counts();
    role.warpgroup_parity = parity;
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

  static constexpr uint32_t kPairs = kUnitRows / 2;  // RoPE pairs in a unit

  // Cosines and sines of a unit's pairs at a token.
  struct Angles {
    float4 cosines, sines;
  };
  // A thread's unit in a tile, of the warpgroup's 8: its four first channels lie side by side at the
  // destination, and so do its four second channels. At the destination a token is one row: a row of the pass
  // for Q, a row of a KV head's cache block for K and V, which storers looked up.
  class TileUnit {
   public:
    template <class Role>
    __device__ __forceinline__ TileUnit(const Role& role, const Op& op,
                                        const tile_stream::UnitOfToken& mine) {
      const HeadShape heads = heads_of(role);
      const QkvUnit u =
          qkv_unit(heads, op.first_unit + mine.warpgroup * tile_stream::kWarpgroupUnits + mine.unit);
      turns_ = u.part != QkvPart::kV;
      in_cache_ = u.part != QkvPart::kQ;
      const uint32_t channel = u.index * (turns_ ? kPairs : kUnitRows);
      const uint32_t head_channels = in_cache_ ? kKvBlockTokens * heads.head_dim : heads.head_dim;
      to_ = (u.part == QkvPart::kQ   ? tensor<&Op::q, uint16_t>(*role.buffer)
             : u.part == QkvPart::kK ? tensor<&Op::k_cache, uint16_t>(*role.buffer)
                                     : tensor<&Op::v_cache, uint16_t>(*role.buffer)) +
            size_t{u.head} * head_channels + channel;
      angles_ = tensor<&Op::rope, const float>(*role.buffer) + u.index * kPairs;
      head_dim_ = heads.head_dim;
      row_channels_ = in_cache_ ? heads.head_dim : heads.q_cols();
      biases_ = serval::has_biases(op) ? biases_of(role, op, u) + u.head * heads.head_dim + channel : nullptr;
    }

    // Issues the loads of the angles at a token's position.
    __device__ __forceinline__ void load(Angles& angles, uint32_t position) const {
      const float* from = angles_ + (position == tile_stream::kNoToken ? 0 : position) * size_t{head_dim_};
      asm volatile("" : "+l"(from));  // otherwise both addresses would be computed from the beginning
      angles.cosines = ptx::load_constant(reinterpret_cast<const float4*>(from));
      angles.sines = ptx::load_constant(reinterpret_cast<const float4*>(from + head_dim_ / 2));
    }
    // Scales the unit's sums of token `token` of the tile, adds biases, turns pairs, and stores the results.
    template <class Role>
    __device__ __forceinline__ void finish(const Role& role, const WarpTile& part, uint32_t token,
                                           const Angles& angles, float (&values)[kUnitRows]) const {
      const auto& work = tile_stream::workspace(role.s);
      const bool exists = work.positions[part.buffer][token] != tile_stream::kNoToken;
      const float scale = work.scales[part.buffer][token];
#pragma unroll
      for (float& value : values) value *= scale;
      if (biases_ != nullptr) add_biases(values);
      turn(values[0], values[4], angles.cosines.x, angles.sines.x);
      turn(values[1], values[5], angles.cosines.y, angles.sines.y);
      turn(values[2], values[6], angles.cosines.z, angles.sines.z);
      turn(values[3], values[7], angles.cosines.w, angles.sines.w);
      const uint32_t row = in_cache_ ? work.places[part.buffer][token] : part.first_token + token;
      uint16_t* to = to_ + size_t{row} * row_channels_;
      asm volatile("" : "+l"(to));  // as for angles
      if (!exists) return;
      *reinterpret_cast<uint2*>(to) = {ptx::pack_bf16(values[0], values[1]),
                                       ptx::pack_bf16(values[2], values[3])};
      *reinterpret_cast<uint2*>(to + apart()) = {ptx::pack_bf16(values[4], values[5]),
                                                 ptx::pack_bf16(values[6], values[7])};
    }

   private:
    // Channels from the unit's first four to its last four.
    __device__ __forceinline__ uint32_t apart() const {
      return turns_ ? head_dim_ / 2 : kPairs;
    }
    __device__ __forceinline__ void add_biases(float (&values)[kUnitRows]) const {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint2 four = ptx::load_constant(reinterpret_cast<const uint2*>(biases_ + half * apart()));
        float* const of_half = values + half * kPairs;
        of_half[0] = __fadd_rn(of_half[0], ptx::bf16_low(four.x));
        of_half[1] = __fadd_rn(of_half[1], ptx::bf16_high(four.x));
        of_half[2] = __fadd_rn(of_half[2], ptx::bf16_low(four.y));
        of_half[3] = __fadd_rn(of_half[3], ptx::bf16_high(four.y));
      }
    }
    // The host rounds each product and the sum, so no fused multiply-add.
    __device__ __forceinline__ void turn(float& first, float& second, float cosine, float sine) const {
      const float a = first, b = second;
      first = turns_ ? __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine)) : a;
      second = turns_ ? __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine)) : b;
    }

    uint16_t* to_;            // the unit's first channel in row 0
    const float* angles_;     // of the unit's first pair, at position 0
    const uint16_t* biases_;  // of the unit's first channel, or null
    uint32_t row_channels_, head_dim_;
    bool turns_, in_cache_;
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
