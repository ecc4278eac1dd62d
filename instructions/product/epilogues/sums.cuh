// Stores sums unchanged, for an instruction that continues with them.
#pragma once

#include <cstdint>

#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device::epilogues {

using tile_stream::WarpTile;

// The sums of one K split.
struct StoreSums {
  float* sums;  // [rows, cols], beginning with the first of the product's outputs
  uint32_t cols;
  uint32_t first_unit;  // the record's
  uint32_t num_units;

  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const;
};

// Complete sums of normalised rows: they are multiplied by the rows' scales.
struct StoreScaledSums {
  float* sums;  // [rows, cols]
  uint32_t cols;
  uint32_t first_unit;  // the record's
  uint32_t num_units;

  using Fetched = vector_stream::NothingFetched;
  template <class Role>
  __device__ __forceinline__ Fetched fetch_constant(const Role&, const vector_stream::Output&) const {
    return {};
  }
  template <class Role>
  __device__ __forceinline__ void store(const Role&, const vector_stream::Output& out,
                                        const vector_stream::Sums& scaled, const Fetched&) const {
    if (!out.wanted) return;
    ptx::store_relaxed(sums + size_t{out.row} * cols + (first_unit + out.unit) * kUnitRows + out.row_of_unit,
                       scaled.first);
  }

  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const {
    tile_stream::for_scaled_units(
        role, tile, d, num_units, [&](uint32_t row, uint32_t unit, const float(&values)[kUnitRows]) {
          auto* const to =
              reinterpret_cast<float4*>(sums + size_t{row} * cols + (first_unit + unit) * kUnitRows);
          to[0] = {values[0], values[1], values[2], values[3]};
          to[1] = {values[4], values[5], values[6], values[7]};
        });
  }
};

template <class Role, uint32_t kValues>
__device__ __forceinline__ void StoreSums::finish_tile(Role& role, const WarpTile& tile,
                                                       float (&d)[kValues]) const {
  if (!tile_stream::has_units(tile, num_units)) return;
  const WarpTile part = tile.reread_thread();
  float* to = sums + first_unit * kUnitRows + size_t{part.first_token + part.token(0, 0)} * cols +
              part.unit() * kUnitRows + part.row_of_unit();
  const uint32_t* positions = tile_stream::workspace(role.s).positions[part.buffer] + part.token(0, 0);
#pragma unroll
  for (uint32_t eight = 0; eight < kValues / 4; ++eight, to += size_t{8} * cols) {
    if (part.first_token + eight * 8 >= part.end_token) break;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (positions[eight * 8 + i] == tile_stream::kNoToken) continue;
      ptx::store_relaxed(to + i * cols, d[eight * 4 + i]);
      ptx::store_relaxed(to + i * cols + kUnitRows, d[eight * 4 + 2 + i]);
    }
  }
}

}  // namespace serval::device::epilogues
