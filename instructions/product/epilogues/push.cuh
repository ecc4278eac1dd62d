// Pushes partial sums to the ranks that add them up: each of `ranks` slices of neighbouring columns has an
// owner (instructions/reduce_residual).
#pragma once

#include <cstdint>

#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"
#include "vm/device/launch.h"
#include "vm/instruction.h"
#include "vm/ptx/ptx.cuh"

namespace serval::device::epilogues {

using tile_stream::WarpTile;

struct PushSums {
  void* const* tensors;  // the program's
  PeerTensors partial;   // [rows, cols] on each rank: fp32 in programs of vectors, bf16 in programs of tiles
  uint32_t cols;
  uint32_t rank, ranks;
  uint32_t first_unit;  // the record's
  uint32_t num_units;

  struct Fetched {
    float* to;
  };
  template <class Role>
  __device__ __forceinline__ Fetched fetch_constant(const Role&, const vector_stream::Output& out) const {
    if (!out.wanted) return {};
    return {at_owner<float>((first_unit + out.unit) * kUnitRows + out.row_of_unit) + size_t{out.row} * cols};
  }
  template <class Role>
  __device__ __forceinline__ void store(const Role&, const vector_stream::Output& out,
                                        const vector_stream::Sums& sums, const Fetched& fetched) const {
    if (out.wanted) ptx::store_relaxed(fetched.to, sums.first);
  }

  // The sums go through shared memory, 16 tokens at a time: 8 threads push a token's 64 columns, 16 bytes
  // each.
  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const {
    if (!tile_stream::has_units(tile, num_units)) return;
    // Looked up once: a lookup for each block would be an access to L2 that the block's stores wait for.
    const uint32_t col = first_unit * kUnitRows + tile.reread_thread().warpgroup * tile_stream::kSquaresCols;
    auto* const to_tile = at_owner<uint16_t>(col) + size_t{tile.first_token} * cols;
    const auto finish = [&](uint32_t block, const float* staged, const tile_stream::UnitOfToken& mine,
                            bool exists) {
      if (!exists) return;
      float values[kUnitRows];
      tile_stream::load_unit(values, staged, mine.token, mine.unit);
      const uint32_t token = block * tile_stream::kStagedTokens + mine.token;
      *reinterpret_cast<uint4*>(to_tile + size_t{token} * cols + mine.unit * kUnitRows) = {
          ptx::pack_bf16(values[0], values[1]), ptx::pack_bf16(values[2], values[3]),
          ptx::pack_bf16(values[4], values[5]), ptx::pack_bf16(values[6], values[7])};
    };
    tile_stream::for_staged<tile_stream::UnitOfToken>(role, tile, d, finish);
  }

 private:
  // Address of row 0 of output `col`, in this rank's share of the owner's columns.
  template <class T>
  __device__ __forceinline__ T* at_owner(uint32_t col) const {
    const uint32_t width = cols / ranks, owner = col / width;
    return static_cast<T*>(tensors[partial.on(owner).index]) + rank * width + (col - owner * width);
  }
};

}  // namespace serval::device::epilogues
