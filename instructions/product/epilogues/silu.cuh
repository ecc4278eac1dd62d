// output = silu(gate) * up: the first half of an MLP.
#pragma once

#include <cstdint>

#include "instructions/common/silu.cuh"
#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/slab_image.h"
#include "vm/ptx/ptx.cuh"

namespace serval::device::epilogues {

using tile_stream::WarpTile;

// Units of gate and up alternate in a tile.
struct SiluProduct {
  static constexpr bool kHasWideTiles = true;

  std::byte* output;    // image of [image_rows, cols], with its type (vm/device/typed_address.h)
  uint32_t image_rows;  // in programs of tiles
  uint32_t cols;
  uint32_t first_unit;  // the record's, in each matrix

  using Fetched = vector_stream::NothingFetched;
  template <class Role>
  __device__ __forceinline__ Fetched fetch_constant(const Role&, const vector_stream::Output&) const {
    return {};
  }
  template <class Role>
  __device__ __forceinline__ void store(const Role&, const vector_stream::Output& out,
                                        const vector_stream::Sums& sums, const Fetched&) const {
    const float gate = sums.first, up = sums.second;
    constexpr bool kTileOrder = Role::Config::kTileOrder;
    const float y = kTileOrder ? silu_times(gate, up) : gate / (1.0F + __expf(-gate)) * up;
    const float neighbour = __shfl_down_sync(~0u, y, 1);
    if (!out.wanted || out.row_of_unit % 2 != 0) return;
    const uint32_t col = (first_unit + out.unit) * kUnitRows + out.row_of_unit;
    const uint64_t at = kTileOrder ? slab_image::offset(image_rows, cols, out.row, col)
                                   : activation_image::offset(kTableRows, cols, out.row, col);
    store_pair(output + at, y, neighbour);
  }

  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const;
};

// Through shared memory, so that stores fill sectors: a warp writes a unit's 8 outputs of a token side by
// side, and a thread stores a piece, two outputs of each of the warpgroup's 4 units.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void SiluProduct::finish_tile(Role& role, const WarpTile& tile,
                                                         float (&d)[kValues]) const {
  constexpr uint32_t kTokens = 32, kEights = kTokens / 8, kUnitBytes = kUnitRows * sizeof(uint16_t);
  constexpr uint32_t kTokenBytes = (kWarpgroupWarps + 1) * kUnitBytes;  // next token: other banks
  static_assert(kTokens * kTokenBytes <= sizeof(tile_stream::Workspace<typename Role::Config>::staged[0][0]));
  const WarpTile part = tile.reread_thread();
  const uint32_t thread = part.warp * kWarpThreads + part.lane;
  const uint32_t token = thread / slab_image::kPiecesOfHalf, piece = thread % slab_image::kPiecesOfHalf;
  const auto at = slab_image::place(
      cols,
      (first_unit + tile.tile_half * tile_stream::kPairUnits + part.warpgroup * kWarpgroupWarps) * kUnitRows);
  std::byte* to = without_type(output) +
                  slab_image::piece_offset(image_rows, part.first_token + token, at.slab, at.piece + piece);
  auto& work = tile_stream::workspace(role.s);
  const auto* scales = reinterpret_cast<const float2*>(work.scales[part.buffer] + part.token(0, 0));
  const uint32_t* positions = work.positions[part.buffer] + token;
  const uint32_t staged = ptx::shared_address(work.staged[part.warpgroup]);
  const uint32_t put = staged + part.lane * kTokenBytes + part.warp * kUnitBytes;
  const uint32_t take = staged + token * kTokenBytes + piece * sizeof(uint32_t);
  constexpr uint32_t kBlocks = kValues / (4 * kEights),
                     kRound = kBlocks < tile_stream::kRoundPages ? kBlocks : tile_stream::kRoundPages;
  static_assert(kRound % tile_stream::kBuffers == 0);
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
        outputs[n] =
            pack_for<typename Role::Config>(output, silu_times(of_eight[0] * scale.x, of_eight[2] * scale.x),
                                            silu_times(of_eight[1] * scale.y, of_eight[3] * scale.y));
      }
      const bool exists = positions[block * kTokens] != tile_stream::kNoToken;
      ptx::store_matrices<true>(put + block % tile_stream::kBuffers * kBufferBytes, outputs);
      role.sync_warpgroup();
      uint32_t words[kWarpgroupWarps];
#pragma unroll
      for (uint32_t unit = 0; unit < kWarpgroupWarps; ++unit)
        words[unit] =
            ptx::shared_load_word(take + block % tile_stream::kBuffers * kBufferBytes + unit * kUnitBytes);
      if (exists)
        *reinterpret_cast<uint4*>(to + block * kTokens * slab_image::kRowBytes) = {words[0], words[1],
                                                                                   words[2], words[3]};
    }
    tile_stream::shift_sums<kRound * 4 * kEights>(d);
    scales += kRound * kTokens / 2;
    positions += kRound * kTokens;
    to += kRound * kTokens * slab_image::kRowBytes;
  }
  role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last one here
}

}  // namespace serval::device::epilogues
