// What a record of a GEMM works on, and how it is cut up (instructions/common/gemm.cuh).
#pragma once

#include <cstdint>

#include "instructions/common/residual.h"
#include "vm/device/isa.h"
#include "vm/device/op.cuh"
#include "vm/device/shared.cuh"
#include "vm/layout/slab_image.h"
#include "vm/layout/units.h"
#include "vm/ptx/thread.cuh"

namespace serval::device::gemm {

using serval::kTileUnits;
inline constexpr uint32_t kWarpUnits = 2;
inline constexpr uint32_t kWarpgroupUnits = kWarpgroupWarps * kWarpUnits;
inline constexpr uint32_t kWarpgroups = kConsumerWarps / kWarpgroupWarps;
inline constexpr uint32_t kPieceBytes = kPageBytes / kTileUnits;  // of a unit in a slab
inline constexpr uint32_t kSlabWords = kPieceBytes / sizeof(uint32_t);
// Squares of the residual are added up for as many columns as a warpgroup finishes.
inline constexpr uint32_t kSquaresCols = kSquareColsOfGemm;
static_assert(kSquaresCols == kWarpgroupWarps * kWarpUnits * kUnitRows);
// Results leave through shared memory, of so many tokens at a time: each thread of a warpgroup then finishes
// a piece of a slab's row.
inline constexpr uint32_t kStagedTokens = 16;
static_assert(kStagedTokens % slab_image::kSwizzledRows == 0);
inline constexpr uint32_t kStagedValues = kStagedTokens / 2;  // of a lane
inline constexpr uint32_t kStagedRowFloats = kWarpgroupWarps * kWarpUnits * kUnitRows;
inline constexpr uint32_t kBuffers = 2;
inline constexpr uint32_t kResidualPart = 2;  // of what a tile needs, beside its two halves of units
inline constexpr uint32_t kPairUnits = kTileUnits / 2;  // of each of two matrices in a tile that is not wide
// A wide tile has two halves, each a page of a slab.
inline constexpr uint32_t kWideHalves = 2;
// A warp's sums of a wide tile, half after half.
template <class Config>
using WideSums = float[kWideHalves][Config::kTileTokens / 2];

// Which 8 weight rows each the units of a tile are.
enum class Units : uint32_t {
  kNeighbours,       // of one matrix: a box of 16 units
  kHalf,             // of one matrix, 8 or fewer: the first warpgroup's
  kNeighboursApart,  // of one matrix in each half: two boxes of 8
  kPairs,            // 8 of each of two matrices, in one box: a warp takes one unit of each
  kWidePairs,        // 16 of each of two matrices: such a box for each half of the tile
};
__device__ __forceinline__ Units neighbours(uint32_t units) {
  return units <= kWarpgroupUnits ? Units::kHalf : Units::kNeighbours;
}

// What an instruction multiplies.
struct Shape {
  const std::byte* activations;  // a slab image of image_rows rows
  const float* squares;  // [image_rows, cols / 64] of the residual, where rows are to be normalised, or null
  float epsilon;         // with squares
  uint32_t image_rows;
  uint32_t first_row;
  uint32_t end_row;
  Units units;
  uint32_t cols;
  uint32_t logits_only;         // 1: only rows whose logits are wanted are computed
  uint32_t adds;                // 1: to a residual, which the loader brings
  const uint32_t* block_table;  // where K and V of a row's token go is looked up, or null
  uint32_t blocks_of_sequence;
  uint32_t kv_heads = 0;    // with block_table
  uint32_t first_slab = 0;  // of the columns, with num_slabs
  uint32_t num_slabs = 0;   // 0: all
  uint32_t parts = 1;       // that the columns are cut into (common/column_parts.h)
};

// Where something of a tile is.
struct Pages {
  const std::byte* map;  // a tensor map: of a matrix, with a row of words for each unit, or of the residual
  uint32_t unit;         // the first unit, or the first column
  uint64_t policy = 0;   // of L2, for weights
};

// How a record is cut up: written once, read by every role.
struct Plan {
  Shape shape;
  const PassRow* rows;
  uint32_t tiles;  // of tokens
  uint32_t slabs;

  // Of the slabs, the first of part `part`; of part `parts`, the end.
  __device__ __forceinline__ uint32_t part_begin(uint32_t part) const {
    constexpr uint32_t kSlabs = slab_image::kSlabsOfPanel;
    return min((slabs + kSlabs - 1) / kSlabs * part / shape.parts * kSlabs, slabs);
  }
  // Of token tile `tile`, those that the pass may have.
  template <class Config>
  __device__ __forceinline__ uint32_t tokens(uint32_t tile) const {
    return min(shape.end_row - shape.first_row - tile * Config::kTileTokens, Config::kTileTokens);
  }
  // A tile of 8 units: a page has two slabs, the last of a part perhaps one.
  __device__ __forceinline__ bool two_slabs_a_page() const { return shape.units == Units::kHalf; }
  __device__ __forceinline__ uint32_t last_part_pages() const {
    const uint32_t count = slabs - part_begin(shape.parts - 1);
    return two_slabs_a_page() ? (count + 1) / 2 : count;
  }
};

// Instead of a token's position: its row is not active, or left out.
inline constexpr uint32_t kNoToken = ~0u;

// Lies where a kernel for few rows keeps its partial results: what a GEMM's consumers hand to storers, and
// what storers look up for them.
template <class Config>
struct Workspace {
  float staged[kWarpgroups][kBuffers][kStagedTokens * kStagedRowFloats];
  float scales[kBuffers][Config::kTileTokens];
  uint32_t positions[kBuffers][Config::kTileTokens];  // or kNoToken
  // Of K and V of KV head 0, counted in vectors of a head's channels.
  uint32_t places[kBuffers][Config::kTileTokens];
};
template <class Config>
__device__ __forceinline__ Workspace<Config>& workspace(Shared<Config>& s) {
  static_assert(sizeof(Workspace<Config>) <= sizeof(s.partials));
  return *reinterpret_cast<Workspace<Config>*>(s.partials);
}

// A consumer warp's part of a tile: two units (8 weight rows each) and all tokens. Of each 8 tokens b, a lane
// has in d[4b + i] its row of the first unit and in d[4b + 2 + i] that of the second, for token 8b + 2 (lane
// mod 4) + i.
struct WarpTile {
  uint32_t warpgroup = 0;
  uint32_t warp = 0;  // of the warpgroup
  uint32_t lane = 0;
  uint32_t first_token;  // of the tile, a row of the pass
  uint32_t end_token;
  uint32_t buffer;         // of what storers looked up
  uint32_t tile_half = 0;  // which of a wide tile's

  __device__ __forceinline__ uint32_t row_of_unit() const { return lane / 4; }
  // The same with the thread read anew: what a loop computes from it is not kept in registers around the
  // loop, of which the sums leave few.
  __device__ __forceinline__ WarpTile again() const {
    WarpTile tile = *this;
    const uint32_t thread = ptx::thread_index();
    tile.warpgroup = thread / kWarpThreads / kWarpgroupWarps - kFirstConsumerWarp / kWarpgroupWarps;
    tile.warp = thread / kWarpThreads % kWarpgroupWarps;
    tile.lane = thread % kWarpThreads;
    return tile;
  }
  // Of the units of the tile, or of its half: the first of the two.
  __device__ __forceinline__ uint32_t unit() const {
    return (warpgroup * kWarpgroupWarps + warp) * kWarpUnits;
  }
  // In the tile; with `eight` b.
  __device__ __forceinline__ uint32_t token(uint32_t eight, uint32_t i) const {
    return eight * 8 + lane % 4 * 2 + i;
  }
};

// --- what instructions ask

// Of a matrix, or of the residual; of a matrix that is no pair's, also that of boxes of 8 units.
__device__ __forceinline__ const std::byte* tensor_map(const BoundProgram& program, TensorId tensor,
                                                       bool halves = false) {
  constexpr uint32_t kMapBytes = 128;
  return program.tensor_maps + (size_t{tensor.index} * kMapsOfTensor + (halves ? 1 : 0)) * kMapBytes;
}
// Products of all columns, of all active rows, with activations as they are.
template <class Op>
__device__ __forceinline__ Shape plain_shape(const Op& op, const std::byte* activations, Units units,
                                             uint32_t cols) {
  return {.activations = activations,
          .squares = nullptr,
          .epsilon = 0,
          .image_rows = op.max_rows,
          .first_row = op.first_row,
          .end_row = op.first_row + op.num_rows,
          .units = units,
          .cols = cols,
          .logits_only = 0,
          .adds = 0,
          .block_table = nullptr,
          .blocks_of_sequence = 0};
}
// Of neighbouring units of op.weights.
template <class Op>
__device__ __forceinline__ Shape product_shape(const Op& op, const std::byte* activations) {
  Shape shape = plain_shape(op, activations, neighbours(op.num_units), op.in_cols);
  shape.logits_only = op.logits_only;
  return shape;
}
// Of its columns only `count` from `first` on: whole panels, but for the matrix's last.
__device__ __forceinline__ void take_columns(Shape& shape, uint32_t first, uint32_t count) {
  const uint32_t end = first + count;
  shape.first_slab = first / page_image::kPanelCols * slab_image::kSlabsOfPanel;
  const uint32_t end_slab = end == shape.cols ? slab_image::slabs(shape.cols)
                                              : end / page_image::kPanelCols * slab_image::kSlabsOfPanel;
  shape.num_slabs = end_slab - shape.first_slab;
}
template <class Op>
__device__ __forceinline__ Pages weight_pages(const BoundProgram& program, const Op& op) {
  return {tensor_map(program, op.weights, op.num_units <= kWarpgroupUnits), op.first_unit};
}
// A tile's units are within the matrix, and whole warpgroups' but for the matrix's last.
__device__ __forceinline__ bool units_in_range(uint32_t first, uint32_t count, uint32_t most, uint32_t all) {
  return count > 0 && count <= most && first < all && count <= all - first;
}
template <class Op>
__device__ __forceinline__ bool rows_in_range(const Op& op) {
  return op.first_row < op.max_rows && op.num_rows <= op.max_rows - op.first_row;
}
// The warpgroup has units to finish: a matrix's last tile may have fewer.
__device__ __forceinline__ bool has_units(const WarpTile& tile, uint32_t units) {
  return tile.warpgroup * kWarpgroupUnits < units;
}

}  // namespace serval::device::gemm
