// qkv_rope in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/qkv_pages.cuh"
#include "instructions/qkv_rope/op.h"
#include "vm/layout/kv_cache.h"

namespace serval::device {

template <>
struct GemmOp<QkvRope> {
  static __device__ bool in_range(const QkvRope& op) { return gemm::qkv_units_in_range(op); }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const QkvRope& op) {
    gemm::Shape shape = gemm::shape_of_heads(op, tensor<&QkvRope::weighted, const std::byte>(buffer));
    shape.squares = tensor<&QkvRope::squares, const float>(buffer);
    shape.epsilon = op.epsilon;
    shape.block_table = tensor<&QkvRope::block_table, const uint32_t>(buffer);
    shape.blocks_of_sequence = blocks_for_tokens(op.max_context);
    shape.kv_heads = op.kv_heads;
    return shape;
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const QkvRope& op, uint32_t half) {
    return gemm::pages_of_heads(program, op, half);
  }
  // A warpgroup has one head's units; a warp finishes 16 channels of a token, in two pieces.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const QkvRope& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    const gemm::WarpTile part = tile.again();
    const QkvUnit first = qkv_unit(op, op.first_unit + part.unit());
    const WarpRows rows(role, op, part, first);
    const Pieces pieces(role, op, part, first);
    const bool turns = first.part != QkvPart::kV;
    const float* angles_of_pair = tensor<&QkvRope::rope, const float>(*role.buffer) + rows.pair;
    Angles next{};
    if (turns) next = angles_of(role, op, part, angles_of_pair, 0);
    constexpr uint32_t kBlocks = kValues / gemm::kStagedValues;
#pragma unroll 1
    for (uint32_t first = 0; first < kBlocks; first += kBlocksTogether) {
      if (part.first_token + first * gemm::kStagedTokens >= part.end_token) break;
#pragma unroll
      for (uint32_t n = 0; n < kBlocksTogether; ++n) {
        const uint32_t block = first + n;
        const Angles angles = next;
        if (turns && block + 1 < kBlocks) next = angles_of(role, op, part, angles_of_pair, block + 1);
        BlockSums sums;
#pragma unroll
        for (uint32_t v = 0; v < gemm::kStagedValues; ++v) sums[v] = d[n * gemm::kStagedValues + v];
        scale(role, part, rows, block, sums);
        if (turns) turn(rows, angles, sums);
        pieces.put(block, sums);
      }
      gemm::shift_sums<kBlocksTogether * gemm::kStagedValues>(d);
      pieces.store(role, part, first);
    }
    role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last here
  }

 private:
  static constexpr uint32_t kPairs = kUnitRows / 2;         // of RoPE in a unit
  static constexpr uint32_t kNextPairs = kWarpThreads / 2;  // lanes from a pair's first channel to its second
  static constexpr uint32_t kTokens = gemm::kStagedValues / 2;  // of a lane, of a block's
  static constexpr uint32_t kBlocksTogether = 2;                // that are stored together
  using BlockSums = float[gemm::kStagedValues];

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

  // What storers looked up for the lane's first token of a block; the others' is behind it (next_token()).
  template <class T>
  static __device__ __forceinline__ const T* of_block(const T* of_tile, const gemm::WarpTile& part,
                                                      uint32_t block) {
    return of_tile + block * gemm::kStagedTokens + part.token(0, 0);
  }
  static __device__ __forceinline__ constexpr uint32_t next_token(uint32_t t) {
    return t / 2 * 8 + t % 2;
  }

  // `of_pair`: the lane's pair at position 0.
  template <class Role>
  static __device__ __forceinline__ Angles angles_of(const Role& role, const QkvRope& op,
                                                     const gemm::WarpTile& part, const float* of_pair,
                                                     uint32_t block) {
    const uint32_t* positions = of_block(gemm::workspace(role.s).positions[part.buffer], part, block);
    Angles angles;
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      const uint32_t position = positions[next_token(t)];
      const float* from = of_pair + size_t{position == gemm::kNoToken ? 0 : position} * op.head_dim;
      angles.cosines[t] = ptx::load_constant(from);
      angles.sines[t] = ptx::load_constant(from + op.head_dim / 2);
    }
    return angles;
  }
  template <class Role>
  static __device__ __forceinline__ void scale(const Role& role, const gemm::WarpTile& part,
                                               const WarpRows& rows, uint32_t block, BlockSums& sums) {
    const float* scales = of_block(gemm::workspace(role.s).scales[part.buffer], part, block);
#pragma unroll
    for (uint32_t v = 0; v < gemm::kStagedValues; ++v) sums[v] *= scales[next_token(v / 4 * 2 + v % 2)];
    if (!rows.has_biases) return;
#pragma unroll
    for (uint32_t v = 0; v < gemm::kStagedValues; ++v) sums[v] = __fadd_rn(sums[v], rows.biases[v / 2 % 2]);
  }
  // Lanes of first and second channels swap one of their rows: each then has both channels of a pair, and
  // returns what the pair becomes in place of the two rows. The 8 lanes of a token have 8 neighbouring pairs.
  static __device__ __forceinline__ void turn(const WarpRows& rows, const Angles& angles, BlockSums& sums) {
#pragma unroll
    for (uint32_t t = 0; t < kTokens; ++t) {
      float& of_first = sums[t / 2 * 4 + t % 2];
      float& of_second = sums[t / 2 * 4 + t % 2 + 2];
      const float got = __shfl_xor_sync(kAllLanes, rows.second ? of_first : of_second, kNextPairs);
      const float a = rows.second ? got : of_first, b = rows.second ? of_second : got;
      const float cosine = angles.cosines[t], sine = angles.sines[t];
      // The host rounds each product and the sum: no fused multiply-add.
      of_first = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
      of_second = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
    }
  }
  // A warpgroup's results on their way through shared memory, so that stores fill sectors: of a token 64
  // channels in 8 pieces, of which a warp has two and a thread stores one. Of Q and K, the first four pieces
  // are first channels of pairs, and the others their second.
  //
  // Where they go, neighbouring tokens are so many channels apart that they are one row further on: of the
  // pass for Q, of a KV head's for K and V, of which storers looked up the rows.
  class Pieces {
   public:
    template <class Role>
    __device__ __forceinline__ Pieces(const Role& role, const QkvRope& op, const gemm::WarpTile& part,
                                      const QkvUnit& first) {
      const bool turns = first.part != QkvPart::kV;
      const uint32_t thread = part.warp * kWarpThreads + part.lane, piece = thread % kCount;
      const uint32_t first_unit = first.index - part.warp * gemm::kWarpUnits;  // of the warpgroup's
      const uint32_t channel = turns ? first_unit * kPairs + piece % (kCount / 2) * kUnitRows +
                                           piece / (kCount / 2) * (op.head_dim / 2)
                                     : (first_unit + piece) * kUnitRows;
      in_cache_ = first.part != QkvPart::kQ;
      row_channels_ = in_cache_ ? op.head_dim : op.q_heads * op.head_dim;
      const uint32_t head_channels = in_cache_ ? kKvBlockTokens * op.head_dim : op.head_dim;
      to_ = (first.part == QkvPart::kQ   ? tensor<&QkvRope::q, uint16_t>(*role.buffer)
             : first.part == QkvPart::kK ? tensor<&QkvRope::k_cache, uint16_t>(*role.buffer)
                                         : tensor<&QkvRope::v_cache, uint16_t>(*role.buffer)) +
            size_t{first.head} * head_channels + channel;
      const uint32_t staged = ptx::shared_address(gemm::workspace(role.s).staged[part.warpgroup]);
      // Of the matrices that a lane gives a row's place of: two of the first 8 tokens, two of the next.
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
    // Of the blocks from `first` on that are stored together.
    template <class Role>
    __device__ __forceinline__ void store(Role& role, const gemm::WarpTile& part, uint32_t first) const {
      auto& work = gemm::workspace(role.s);
      bool exist[kBlocksTogether];
      uint32_t rows[kBlocksTogether];
#pragma unroll
      for (uint32_t n = 0; n < kBlocksTogether; ++n) {
        const uint32_t token = (first + n) * gemm::kStagedTokens + token_;
        exist[n] = work.positions[part.buffer][token] != gemm::kNoToken;
        rows[n] = in_cache_ ? work.places[part.buffer][token] : part.first_token + token;
      }
      role.sync_warpgroup();
#pragma unroll
      for (uint32_t n = 0; n < kBlocksTogether; ++n) {
        const uint4 piece = ptx::shared_load(take_ + offset(first + n));
        if (exist[n]) *reinterpret_cast<uint4*>(to_ + size_t{rows[n]} * row_channels_) = piece;
      }
    }

   private:
    static constexpr uint32_t kCount = gemm::kWarpgroupUnits;  // of a token

    static __device__ __forceinline__ uint32_t place(uint32_t token, uint32_t piece) {
      return (token * kCount + (piece ^ token % kCount)) * slab_image::kPieceBytes;
    }
    // Of a block, in the warpgroup's buffers.
    static __device__ __forceinline__ constexpr uint32_t offset(uint32_t block) {
      constexpr uint32_t kBlockBytes = gemm::kStagedTokens * kCount * slab_image::kPieceBytes;
      static_assert(2 * kBlocksTogether * kBlockBytes ==
                    gemm::kBuffers * gemm::kStagedTokens * gemm::kStagedRowFloats * sizeof(float));
      return block % (2 * kBlocksTogether) * kBlockBytes;
    }

    uint16_t* to_;  // of row 0
    uint32_t row_channels_;
    uint32_t put_, take_;  // of a buffer's first block
    uint32_t token_;       // of a block's
    bool in_cache_;
  };
  template <class Role>
  static __device__ __forceinline__ const uint16_t* biases_of(const Role& role, const QkvRope& op,
                                                              const QkvUnit& u) {
    return u.part == QkvPart::kQ   ? tensor<&QkvRope::q_bias, const uint16_t>(*role.buffer)
           : u.part == QkvPart::kK ? tensor<&QkvRope::k_bias, const uint16_t>(*role.buffer)
                                   : tensor<&QkvRope::v_bias, const uint16_t>(*role.buffer);
  }
};

}  // namespace serval::device
