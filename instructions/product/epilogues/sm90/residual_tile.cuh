// How AddToResidual finishes a tile: through pages of the residual, which the copy engine loads, or to which
// it adds the sums of a K split.
#pragma once

#include <cstdint>

#include "instructions/common/residual_piece.cuh"
#include "instructions/product/epilogues/residual.cuh"
#include "instructions/product/orders/sm90/tile_stream/residual_pages.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "vm/layout/slab_image.h"
#include "vm/ptx/ptx.cuh"

namespace serval::device::epilogues {

using tile_stream::kBoxBytes;
using tile_stream::kBoxCols;
using tile_stream::kNoToken;
using tile_stream::kPageTokens;
using tile_stream::kRoundPages;
using tile_stream::kStagedTokens;
using tile_stream::kStagedValues;
using tile_stream::kWarpgroupUnits;
using tile_stream::kWarpUnits;
using tile_stream::PieceOfRow;
using tile_stream::residual_offset;
using tile_stream::shift_sums;
using tile_stream::workspace;

namespace tile_place {

// Addresses of a lane's sums of kPageTokens tokens in a page of the residual. One number is enough: for
// another token or unit the swizzle changes single bits of it.
class LanePlaces {
 public:
  static constexpr uint32_t kSums = kPageTokens / 2;

  __device__ __forceinline__ explicit LanePlaces(const WarpTile& part)
      : first_(residual_offset(part.token(0, 0), part.unit() * kUnitRows + part.row_of_unit())) {}
  // Address of sum v; v is an index of d.
  __device__ __forceinline__ float* in(std::byte* page, uint32_t v) const {
    const uint32_t next_token = v % 2, next_unit = v / 2 % 2;
    static_assert(kWarpUnits == 2, "the first unit's place in its box is even");
    const uint32_t swizzled = first_ ^ (next_token + next_unit * kPiecesOfUnit) * slab_image::kPieceBytes;
    return reinterpret_cast<float*>(page + swizzled + (next_token + v / 4 * 8) * kTokenBytes);
  }

 private:
  static constexpr uint32_t kTokenBytes = kBoxCols * sizeof(float);
  static constexpr uint32_t kPiecesOfUnit = kUnitRows * sizeof(float) / slab_image::kPieceBytes;
  static_assert(slab_image::kSwizzledRows == 8, "8 tokens further on, all else is the same");
  uint32_t first_;
};
// Adds a lane's sums of tokens [32 n, 32 n + 32) of a tile to a page of the residual.
template <uint32_t kValues>
__device__ __forceinline__ void add_to_page(std::byte* page, const LanePlaces& places,
                                            const float (&d)[kValues], uint32_t n) {
#pragma unroll
  for (uint32_t first = 0; first < LanePlaces::kSums; first += kStagedValues) {
    // All loads come before the first store: the compiler does not know that the addresses differ.
    float before[kStagedValues];
#pragma unroll
    for (uint32_t v = 0; v < kStagedValues; ++v) before[v] = *places.in(page, first + v);
#pragma unroll
    for (uint32_t v = 0; v < kStagedValues; ++v)
      *places.in(page, first + v) = before[v] + d[n * LanePlaces::kSums + first + v];
  }
}
// Writes a lane's sums of one K split to a page that the copy engine will add to the residual. Tokens that
// are not computed get -0, which adds nothing. positions: those of the page's tokens.
template <uint32_t kValues>
__device__ __forceinline__ void put_in_page(std::byte* page, const LanePlaces& places, const WarpTile& part,
                                            const float (&d)[kValues], uint32_t n,
                                            const uint32_t* positions) {
#pragma unroll
  for (uint32_t v = 0; v < LanePlaces::kSums; ++v) *places.in(page, v) = d[n * LanePlaces::kSums + v];
  static_assert(kPageTokens == kWarpThreads);
  const bool exists = positions[part.lane] != kNoToken;
  if (__all_sync(kAllLanes, exists) || exists) return;
#pragma unroll 1
  for (uint32_t c = 0; c < kWarpUnits * kUnitRows; ++c)
    *reinterpret_cast<float*>(page + residual_offset(part.lane, part.unit() * kUnitRows + c)) = -0.0F;
}

// Pages that an unrolled round processes.
template <class Config>
constexpr uint32_t pages_of_round() {
  const uint32_t pages = (Config::kTileTokens + kPageTokens - 1) / kPageTokens;
  return pages < kRoundPages ? pages : kRoundPages;
}

}  // namespace tile_place

template <class Role, uint32_t kValues>
__device__ __forceinline__ void AddToResidual::finish_tile(Role& role, const WarpTile& tile,
                                                           float (&d)[kValues]) const {
  using tile_place::LanePlaces;
  using Config = typename Role::Config;
  constexpr uint32_t kHalfBytes = kStagedTokens * kBoxCols * sizeof(float);
  constexpr uint32_t kUnitBytes = kUnitRows * sizeof(float);
  const WarpTile part = tile.reread_thread();
  const bool has = tile_stream::has_units(part, num_units);
  const PieceOfRow mine(part);
  const uint32_t col =
      (part.warpgroup * kWarpgroupUnits + mine.group * residual::Piece::kUnits) * kUnitRows + mine.piece * 2;
  using Piece = residual::PieceOf<Config::kHasE4M3>;
  Piece piece({residual, norm, weighted, squares, image_rows, cols}, part.first_token + mine.token,
              first_unit * kUnitRows + (has ? col : 0), mine.piece);
  const uint32_t* positions = workspace(role.s).positions[part.buffer] + mine.token;
  const LanePlaces places(part);
  // For another unit two bits of the offset change, swizzled or not.
  const uint32_t from = residual_offset(mine.token, col);
  constexpr uint32_t kRound = tile_place::pages_of_round<Config>();
#pragma unroll 1
  for (uint32_t row = part.first_token; row < part.end_token; row += kRound * kPageTokens) {
#pragma unroll
    for (uint32_t page = 0; page < kRound; ++page) {
      if (row + page * kPageTokens >= part.end_token) break;
      role.wait_page(role.next_page);
      std::byte* page_of_residual = role.s.ring[role.next_page % Config::kRingPages];
      if (has) tile_place::add_to_page(page_of_residual, places, d, page);
      role.sync_warpgroup();
      if (has) {
        residual::Piece::Values values[2];
        bool exists[2];
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
          exists[half] = positions[page * kPageTokens + half * kStagedTokens] != kNoToken;
#pragma unroll
          for (uint32_t u = 0; u < residual::Piece::kUnits; ++u)
            values[half][u] = *reinterpret_cast<const float2*>(page_of_residual + (from ^ u * kUnitBytes) +
                                                               half * kHalfBytes);
        }
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
          piece.store(values[half], exists[half], part.lane);
          piece.advance(kStagedTokens);
        }
      }
      role.free_page(role.next_page++);
    }
    shift_sums<kRound * LanePlaces::kSums>(d);
    positions += kRound * kPageTokens;
  }
}

template <class Role, uint32_t kValues>
__device__ __forceinline__ void AddToResidual::add_part(Role& role, const WarpTile& tile,
                                                        float (&d)[kValues]) const {
  using tile_place::LanePlaces;
  const uint32_t first_col = first_unit * kUnitRows;
  using Config = typename Role::Config;
  constexpr uint32_t kBoxesOfWarpgroup = kWarpgroupUnits * kUnitRows / kBoxCols;
  const WarpTile part = tile.reread_thread();
  const bool has = tile_stream::has_units(part, num_units);
  const uint32_t* positions = workspace(role.s).positions[part.buffer];
  const LanePlaces places(part);
  const bool asks = has && role.leads_warpgroup();
  if (asks) ptx::fence_proxy_async_global();  // the inputs are ready
  constexpr uint32_t kRound = tile_place::pages_of_round<Config>();
#pragma unroll 1
  for (uint32_t first = part.first_token; first < part.end_token; first += kRound * kPageTokens) {
#pragma unroll
    for (uint32_t page = 0; page < kRound; ++page) {
      const uint32_t row = first + page * kPageTokens;
      if (row >= part.end_token) break;
      role.wait_page(role.next_page);
      std::byte* sums = role.s.ring[role.next_page % Config::kRingPages];
      if (has) tile_place::put_in_page(sums, places, part, d, page, positions + page * kPageTokens);
      ptx::fence_proxy_async_shared();  // the copy engine will read it
      role.sync_warpgroup();
      if (asks) {
#pragma unroll
        for (uint32_t n = 0; n < kBoxesOfWarpgroup; ++n) {
          const uint32_t box = part.warpgroup * kBoxesOfWarpgroup + n;
          ptx::tensor_add(map, row, first_col + box * kBoxCols, sums + box * kBoxBytes);
        }
        ptx::commit_stores();
        if (row + kPageTokens < part.end_token) {
          ptx::wait_stores_read<0>();
        } else {
          ptx::wait_stores<0>();
        }
      }
      role.free_page(role.next_page++);
    }
    shift_sums<kRound * LanePlaces::kSums>(d);
    positions += kRound * kPageTokens;
  }
}

}  // namespace serval::device::epilogues
