// residual += sums; also writes what the residual's next readers need (instructions/common/residual.h).
#pragma once

#include <cstdint>

#include "instructions/common/residual.cuh"
#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"

namespace serval::device::epilogues {

using tile_stream::WarpTile;

struct AddToResidual {
  float* residual;       // [rows, cols]
  const uint16_t* norm;  // [cols] bf16: weights of the next norm
  std::byte* weighted;   // image of residual * norm: image_rows rows in programs of tiles
  float* squares;        // [rows, cols / 8], or cols / 64 in programs of tiles
  uint32_t image_rows;
  uint32_t cols;
  uint32_t first_unit;  // the record's
  uint32_t num_units;
  uint32_t parts;        // K splits, whose sums are added first to last
  const std::byte* map;  // tensor map of the residual, in programs of tiles

  struct Fetched {
    float residual;
    uint32_t norm;  // the column's weight, a bf16
  };
  template <class Role>
  __device__ __forceinline__ Fetched fetch_constant(const Role&, const vector_stream::Output& out) const {
    if (!out.wanted) return {};
    return {.residual = 0, .norm = ptx::load_constant(norm + col_of(out))};
  }
  template <class Role>
  __device__ __forceinline__ void fetch_written(const Role&, const vector_stream::Output& out,
                                                Fetched& fetched) const {
    if (!out.wanted) return;
    fetched.residual = ptx::load_relaxed(residual + size_t{out.row} * cols + col_of(out));
  }
  template <class Role>
  __device__ __forceinline__ void store(const Role&, const vector_stream::Output& out,
                                        const vector_stream::Sums& sums, const Fetched& fetched) const {
    constexpr bool kTileOrder = Role::Config::kTileOrder;
    const residual::Place to{residual, weighted, squares, cols, kTileOrder ? image_rows : 0};
    const float value = kTileOrder ? vector_stream::add_in_order(fetched.residual, sums, parts)
                                   : fetched.residual + sums.first;
    residual::store(to, out.row, col_of(out), value, static_cast<uint16_t>(fetched.norm), out.wanted, ~0u);
  }

  // A warpgroup without units only frees the pages of the residual.
  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const;
  // For a K split that is not the last: the copy engine adds the sums, from pages that the loader issues
  // empty (tile_stream::Stream). When the last page is freed, the sums have been added. One thread issues all
  // additions to an address, split after split.
  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void add_part(Role& role, const WarpTile& tile, float (&d)[kValues]) const;

 private:
  __device__ __forceinline__ uint32_t col_of(const vector_stream::Output& out) const {
    return (first_unit + out.unit) * kUnitRows + out.row_of_unit;
  }
};

}  // namespace serval::device::epilogues
