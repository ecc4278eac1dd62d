// What finishes a tile whose products, or SiLU of them, become a tensor of their own.
#pragma once

#include <cstdint>

#include "instructions/common/gemm/shape.cuh"
#include "instructions/common/gemm/staging.cuh"
#include "instructions/common/silu.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::gemm {

// output = silu(gate) × up, both scaled by the tokens' scales; units of gate and up lie in turn. first_unit:
// of the tile, in each matrix. Through shared memory, so that stores fill sectors: a warp puts a unit's 8
// outputs of a token side by side there, and a thread takes a piece, two outputs of each of the warpgroup's 4
// units.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void store_silu(Role& role, const WarpTile& tile, std::byte* output,
                                           uint32_t image_rows, uint32_t cols, uint32_t first_unit,
                                           float (&d)[kValues]) {
  constexpr uint32_t kTokens = 32, kEights = kTokens / 8, kUnitBytes = kUnitRows * sizeof(uint16_t);
  constexpr uint32_t kTokenBytes = (kWarpgroupWarps + 1) * kUnitBytes;  // in other banks than the next
  static_assert(kTokens * kTokenBytes <= sizeof(Workspace<typename Role::Config>::staged[0][0]));
  const WarpTile part = tile.again();
  const uint32_t thread = part.warp * kWarpThreads + part.lane;
  const uint32_t token = thread / slab_image::kPiecesOfHalf, piece = thread % slab_image::kPiecesOfHalf;
  const auto at = slab_image::place(cols, (first_unit + part.warpgroup * kWarpgroupWarps) * kUnitRows);
  std::byte* to =
      output + slab_image::piece_offset(image_rows, part.first_token + token, at.slab, at.piece + piece);
  auto& work = workspace(role.s);
  const auto* scales = reinterpret_cast<const float2*>(work.scales[part.buffer] + part.token(0, 0));
  const uint32_t* positions = work.positions[part.buffer] + token;
  const uint32_t staged = ptx::shared_address(work.staged[part.warpgroup]);
  const uint32_t put = staged + part.lane * kTokenBytes + part.warp * kUnitBytes;
  const uint32_t take = staged + token * kTokenBytes + piece * sizeof(uint32_t);
  constexpr uint32_t kBlocks = kValues / (4 * kEights),
                     kRound = kBlocks < kRoundPages ? kBlocks : kRoundPages;
  static_assert(kRound % kBuffers == 0);
#pragma unroll 1
  for (uint32_t first = part.first_token; first < part.end_token; first += kRound * kTokens) {
#pragma unroll
    for (uint32_t block = 0; block < kRound; ++block) {
      if (first + block * kTokens >= part.end_token) break;
      constexpr uint32_t kBufferBytes = sizeof(work.staged[0][0]);
      uint32_t outputs[kEights];
#pragma unroll
      for (uint32_t n = 0; n < kEights; ++n) {
        const float* of_eight = d + (block * kEights + n) * 4;
        const float2 scale = scales[(block * kEights + n) * 4];
        outputs[n] = ptx::pack_bf16(silu_times(of_eight[0] * scale.x, of_eight[2] * scale.x),
                                    silu_times(of_eight[1] * scale.y, of_eight[3] * scale.y));
      }
      const bool exists = positions[block * kTokens] != kNoToken;
      ptx::store_matrices<true>(put + block % kBuffers * kBufferBytes, outputs);
      role.sync_warpgroup();
      uint32_t words[kWarpgroupWarps];
#pragma unroll
      for (uint32_t unit = 0; unit < kWarpgroupWarps; ++unit)
        words[unit] = ptx::shared_load_word(take + block % kBuffers * kBufferBytes + unit * kUnitBytes);
      if (exists)
        *reinterpret_cast<uint4*>(to + block * kTokens * slab_image::kRowBytes) = {words[0], words[1],
                                                                                   words[2], words[3]};
    }
    shift_sums<kRound * 4 * kEights>(d);
    scales += kRound * kTokens / 2;
    positions += kRound * kTokens;
    to += kRound * kTokens * slab_image::kRowBytes;
  }
  role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last here
}

// The sums of one part of the columns, as they are. `to`: of the first of the tile's columns, in a tensor of
// so many columns.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void store_sums(Role& role, const WarpTile& tile, float* to, uint32_t cols,
                                           const float (&d)[kValues]) {
  const WarpTile part = tile.again();
  to += size_t{part.first_token + part.token(0, 0)} * cols + part.unit() * kUnitRows + part.row_of_unit();
  const uint32_t* positions = workspace(role.s).positions[part.buffer] + part.token(0, 0);
#pragma unroll
  for (uint32_t eight = 0; eight < kValues / 4; ++eight, to += size_t{8} * cols) {
    if (part.first_token + eight * 8 >= part.end_token) break;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (positions[eight * 8 + i] == kNoToken) continue;
      ptx::store_relaxed(to + i * cols, d[eight * 4 + i]);
      ptx::store_relaxed(to + i * cols + kUnitRows, d[eight * 4 + 2 + i]);
    }
  }
}

}  // namespace serval::device::gemm
