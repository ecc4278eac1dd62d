// Moves a tile's sums from registers to rows through shared memory, kStagedTokens tokens at a time.
#pragma once

#include <cstdint>

#include "instructions/product/orders/tile_stream/shape.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::tile_stream {

// Epilogues are unrolled over this many pages and loop over the rest. Fewer pages would move all sums more
// often; more pages would need more of the instruction cache.
inline constexpr uint32_t kRoundPages = 4;

// One thread's share of kStagedTokens tokens: piece `piece` of half a slab's row, which has rows 2 × piece
// and 2 × piece + 1 of 4 neighbouring units, for token `token`. Neighbouring threads of half a warp have
// tokens that are two apart, so that they use different banks in a page of the residual.
struct PieceOfRow {
  uint32_t token;  // 0 to kStagedTokens - 1
  uint32_t group;  // group of 4 units among the warpgroup's 8
  uint32_t piece;

  __device__ __forceinline__ explicit PieceOfRow(const WarpTile& part) {
    const uint32_t thread = part.warp * kWarpThreads + part.lane;
    token = thread / 32 * 4 + thread / 8 % 2 * 2 + thread / 16 % 2;
    group = thread / slab_image::kPiecesOfHalf % 2;
    piece = thread % slab_image::kPiecesOfHalf;
  }
};
// Offset of a staged sum: unit `unit` (of the warpgroup's 8), row `row` of the unit. Units are swizzled so
// that a warp's accesses use all banks.
__device__ __forceinline__ uint32_t staged_float(uint32_t token, uint32_t unit, uint32_t row) {
  return token * kStagedRowFloats + (unit ^ (token / 2 & 3)) * kUnitRows + row;
}
// Drops the first kCount sums. A loop over a tile's tokens takes its sums from the front, since registers
// cannot be indexed at run time.
template <uint32_t kCount, uint32_t kValues>
__device__ __forceinline__ void shift_sums(float (&d)[kValues]) {
#pragma unroll
  for (uint32_t v = 0; v + kCount < kValues; ++v) d[v] = d[v + kCount];
}
// Stages the sums of the first kStagedTokens tokens.
template <uint32_t kValues>
__device__ __forceinline__ void put_block(float* staged, const WarpTile& part, const float (&d)[kValues]) {
  const uint32_t unit = part.warp * kWarpUnits;
  float* first = staged + staged_float(part.token(0, 0), unit, part.row_of_unit());
  float* second = staged + staged_float(part.token(0, 0), unit + 1, part.row_of_unit());
#pragma unroll
  for (uint32_t v = 0; v < kStagedValues; ++v)
    (v / 2 % 2 == 0 ? first : second)[(v / 4 * 8 + v % 2) * kStagedRowFloats] = d[v];
}
// Calls finish(block, staged, mine, exists) for every 16 tokens of a tile once the warpgroup's sums of them
// are in shared memory. `mine` is the thread's share (a Mine), `exists` whether its token is computed.
template <class Mine, class Role, uint32_t kValues, class Finish>
__device__ __forceinline__ void for_staged(Role& role, const WarpTile& part, float (&d)[kValues],
                                           Finish&& finish) {
  auto& work = workspace(role.s);
#pragma unroll 1
  for (uint32_t block = 0; block < kValues / kStagedValues; ++block) {
    if (part.first_token + block * kStagedTokens >= part.end_token) break;
    const WarpTile now = part.reread_thread();
    float* staged = work.staged[now.warpgroup][block % kBuffers];
    put_block(staged, now, d);
    shift_sums<kStagedValues>(d);
    role.sync_warpgroup();
    const Mine mine(now);
    finish(block, staged, mine, work.positions[part.buffer][block * kStagedTokens + mine.token] != kNoToken);
  }
  role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last one here
}
// One thread's share if threads take whole units: unit `unit` of the warpgroup's 8, for token `token`.
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
// Calls finish(row, unit, values) for each unit of a tile's rows that the record has: its sums times the
// row's scale. `unit` is counted from the record's first. Units after the record's `num_units` may belong to
// another rank, which has their weights.
template <class Role, uint32_t kValues, class Finish>
__device__ __forceinline__ void for_scaled_units(Role& role, const WarpTile& tile, float (&d)[kValues],
                                                 uint32_t num_units, Finish&& finish) {
  if (!has_units(tile, num_units)) return;
  const auto scale_unit = [&](uint32_t block, const float* staged, const UnitOfToken& mine, bool exists) {
    const uint32_t unit = mine.warpgroup * kWarpgroupUnits + mine.unit;
    if (!exists || unit >= num_units) return;
    const uint32_t token = block * kStagedTokens + mine.token;
    float values[kUnitRows];
    load_unit(values, staged, mine.token, mine.unit);
    const float scale = workspace(role.s).scales[tile.buffer][token];
#pragma unroll
    for (float& value : values) value *= scale;
    finish(tile.first_token + token, unit, values);
  };
  for_staged<UnitOfToken>(role, tile, d, scale_unit);
}

}  // namespace serval::device::tile_stream
