// How a tile's sums get from registers to rows: through shared memory, some tokens at a time.
#pragma once

#include <cstdint>

#include "instructions/common/gemm/shape.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::gemm {

// What finishes a tile is straight code for so many pages, which then runs again for the next ones: a round
// more moves all sums, a round less is more code to bring to the instruction cache.
inline constexpr uint32_t kRoundPages = 4;

// What a thread finishes of kStagedTokens tokens: piece `piece` of half a slab's row, which has rows 2 piece
// and the next of 4 neighbouring units, of token `token`. Neighbours in a half of a warp have tokens that are
// two apart: in a page of the residual they lie in other banks.
struct PieceOfRow {
  uint32_t token;  // 0 to kStagedTokens - 1
  uint32_t group;  // of 4 units, of the warpgroup's 8
  uint32_t piece;

  __device__ __forceinline__ explicit PieceOfRow(const WarpTile& part) {
    const uint32_t thread = part.warp * kWarpThreads + part.lane;
    token = thread / 32 * 4 + thread / 8 % 2 * 2 + thread / 16 % 2;
    group = thread / slab_image::kPiecesOfHalf % 2;
    piece = thread % slab_image::kPiecesOfHalf;
  }
};
// Of the float of unit `unit` (of the warpgroup's 8) and row `row` in a staged token's row: units of 4 are
// moved about, so that a warp's accesses use all banks.
__device__ __forceinline__ uint32_t staged_float(uint32_t token, uint32_t unit, uint32_t row) {
  return token * kStagedRowFloats + (unit ^ (token / 2 & 3)) * kUnitRows + row;
}
// For loops over a tile's tokens of which each round takes the first kCount sums: then the next ones come
// first. Registers have no index.
template <uint32_t kCount, uint32_t kValues>
__device__ __forceinline__ void shift_sums(float (&d)[kValues]) {
#pragma unroll
  for (uint32_t v = 0; v + kCount < kValues; ++v) d[v] = d[v + kCount];
}
// The first kStagedTokens tokens' sums.
template <uint32_t kValues>
__device__ __forceinline__ void put_block(float* staged, const WarpTile& part, const float (&d)[kValues]) {
  const uint32_t unit = part.warp * kWarpUnits;
  float* first = staged + staged_float(part.token(0, 0), unit, part.row_of_unit());
  float* second = staged + staged_float(part.token(0, 0), unit + 1, part.row_of_unit());
#pragma unroll
  for (uint32_t v = 0; v < kStagedValues; ++v)
    (v / 2 % 2 == 0 ? first : second)[(v / 4 * 8 + v % 2) * kStagedRowFloats] = d[v];
}
// Calls finish(block, staged, mine, exists) for every 16 tokens of a tile, when a warpgroup's sums of them
// are in shared memory; `mine` says what the thread finishes.
template <class Mine, class Role, uint32_t kValues, class Finish>
__device__ __forceinline__ void for_staged(Role& role, const WarpTile& part, float (&d)[kValues],
                                           Finish&& finish) {
  auto& work = workspace(role.s);
#pragma unroll 1
  for (uint32_t block = 0; block < kValues / kStagedValues; ++block) {
    if (part.first_token + block * kStagedTokens >= part.end_token) break;
    const WarpTile now = part.again();
    float* staged = work.staged[now.warpgroup][block % kBuffers];
    put_block(staged, now, d);
    shift_sums<kStagedValues>(d);
    role.sync_warpgroup();
    const Mine mine(now);
    finish(block, staged, mine, work.positions[part.buffer][block * kStagedTokens + mine.token] != kNoToken);
  }
  role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last here
}
// What a thread finishes where it takes whole units: one of the warpgroup's 8, of token `token`.
struct UnitOfToken {
  uint32_t token;  // 0 to kStagedTokens - 1
  uint32_t warpgroup;
  uint32_t unit;

  __device__ __forceinline__ explicit UnitOfToken(const WarpTile& part) : warpgroup(part.warpgroup) {
    const uint32_t thread = part.warp * kWarpThreads + part.lane;
    token = thread / kWarpgroupUnits;
    unit = thread % kWarpgroupUnits;
  }
};
__device__ __forceinline__ void load_unit(float (&values)[kUnitRows], const float* staged, uint32_t token,
                                          uint32_t unit) {
  const auto* from = reinterpret_cast<const float4*>(staged + staged_float(token, unit, 0));
  const float4 low = from[0], high = from[1];
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

}  // namespace serval::device::gemm
