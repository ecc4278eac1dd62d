// The shape of a tile stream's record and its division into steps
// (instructions/product/orders/sm90/tile_stream.cuh).
#pragma once

#include <cstdint>

#include "instructions/common/operands.cuh"
#include "instructions/common/residual.h"
#include "instructions/product/operands.cuh"
#include "vm/device/architecture.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/layout/kv_cache.h"
#include "vm/layout/slab_image.h"
#include "vm/layout/units.h"
#include "vm/ptx/thread.cuh"

namespace serval::device::tile_stream {

using serval::kTileUnits;
inline constexpr uint32_t kWarpUnits = 2;
inline constexpr uint32_t kWarpgroupUnits = kWarpgroupWarps * kWarpUnits;
inline constexpr uint32_t kWarpgroups = kConsumerWarps / kWarpgroupWarps;
// Squares of the residual are added up for as many columns as a warpgroup finishes.
inline constexpr uint32_t kSquaresCols = kSquareColsOfTiles;
static_assert(kSquaresCols == kWarpgroupWarps * kWarpUnits * kUnitRows);
// Results leave through shared memory, this many tokens at a time: each thread of a warpgroup then finishes a
// piece of a slab's row.
inline constexpr uint32_t kStagedTokens = 16;
static_assert(kStagedTokens % slab_image::kSwizzledRows == 0);
inline constexpr uint32_t kStagedValues = kStagedTokens / 2;  // sums of a lane in them
inline constexpr uint32_t kStagedRowFloats = kWarpgroupWarps * kWarpUnits * kUnitRows;
inline constexpr uint32_t kBuffers = 2;
inline constexpr uint32_t kPairUnits = kTileUnits / 2;  // of each of two matrices, if the tile is not wide
// A wide tile has two halves, each a page of a slab.
inline constexpr uint32_t kWideHalves = 2;
// A warp's sums of a wide tile, half after half.
template <class Config>
using WideSums = float[kWideHalves][Config::kTileTokens / 2];

// Places of a tile's units in their weight tensors.
enum class Units : uint32_t {
  kNeighbours,       // 16 of one matrix, in one box
  kHalf,             // at most 8 of one matrix, all for the first warpgroup
  kNeighboursApart,  // 8 of one matrix in each half: two boxes of 8
  kPairs,            // 8 of each of two matrices, in one box: a warp has one unit of each
  kWidePairs,        // 16 of each of two matrices: one such box for each half of the tile
};

// A record in the tile stream's terms, beside the program's shape.
struct Shape {
  const std::byte* activations;  // a slab image of the rows of a pass
  const float* squares;  // [rows of a pass, cols / 64] of the residual if rows must be normalised, or null
  float epsilon;         // if there are squares
  uint32_t first_row;
  uint32_t end_row;
  Units units;
  uint32_t cols;
  uint32_t logits_only;         // 1: only rows that want logits are computed
  uint32_t adds;                // 1: adds to a residual, which the loader loads
  const uint32_t* block_table;  // to look up where a row's K and V are stored, or null
  uint32_t first_slab = 0;      // first of num_slabs slabs of the columns
  uint32_t num_slabs = 0;       // 0: all
  uint32_t parts = 1;           // K splits (common/column_parts.h)
  uint32_t format = 0;          // of the weights (formats::FormatSet)
};

// Limits the product to columns [first, first + count): whole panels, except for the matrix's last.
__device__ __forceinline__ void take_columns(Shape& shape, uint32_t first, uint32_t count) {
  const uint32_t end = first + count;
  shape.first_slab = first / page_image::kPanelCols * slab_image::kSlabsOfPanel;
  const uint32_t end_slab = end == shape.cols ? slab_image::slabs(shape.cols)
                                              : end / page_image::kPanelCols * slab_image::kSlabsOfPanel;
  shape.num_slabs = end_slab - shape.first_slab;
}

// How a record is divided: computed once, read by every role.
struct Plan {
  Shape shape;
  const PassRow* rows;
  uint32_t tiles;  // token tiles
  uint32_t slabs;

  // First slab of K split `part`; the number of slabs for part == shape.parts.
  __device__ __forceinline__ uint32_t part_begin(uint32_t part) const {
    constexpr uint32_t kSlabs = slab_image::kSlabsOfPanel;
    return min((slabs + kSlabs - 1) / kSlabs * part / shape.parts * kSlabs, slabs);
  }
  // Tokens of token tile `tile` that the pass may have.
  template <class Config>
  __device__ __forceinline__ uint32_t tokens(uint32_t tile) const {
    return min(shape.end_row - shape.first_row - tile * Config::kTileTokens, Config::kTileTokens);
  }
  // A page has one step, or two if groups of the weights have scales, or if the tile has 8 units and a
  // step one slab. The last page of a K split may have one step less.
  template <class FormatSet>
  __device__ __forceinline__ uint32_t steps_of_page() const {
    if (FormatSet::has_groups(shape.format)) return 2;
    return shape.units == Units::kHalf && FormatSet::slabs_of_step(shape.format) == 1 ? 2 : 1;
  }
  template <class FormatSet>
  __device__ __forceinline__ uint32_t last_part_pages() const {
    const uint32_t steps = (slabs - part_begin(shape.parts - 1)) / FormatSet::slabs_of_step(shape.format);
    return steps_of_page<FormatSet>() == 2 ? (steps + 1) / 2 : steps;
  }
};

// Marks the position of a token that is not computed.
inline constexpr uint32_t kNoToken = ~0u;

// Uses the memory of a vector kernel's partial results: staged sums, and the storers' look-ups for consumers.
template <class Config>
struct Workspace {
  float staged[kWarpgroups][kBuffers][kStagedTokens * kStagedRowFloats];
  float scales[kBuffers][Config::kTileTokens];
  uint32_t positions[kBuffers][Config::kTileTokens];  // or kNoToken
  // Row of KV head 0 in the caches, counted in vectors of head_dim channels.
  uint32_t places[kBuffers][Config::kTileTokens];
  // If weights have scales: the scale of each of the tile's rows, in the order of its pages.
  static constexpr uint32_t kHalves = Config::kHasWideTiles ? kWideHalves : 1;
  float row_scales[kBuffers][Config::kHasE4M3 ? kHalves * kTileUnits * kUnitRows : 1];
  float token_scales[kBuffers]
                    [Config::kHasInputScales ? Config::kTileTokens : 2];  // if activations have scales
};
template <class Config>
__device__ __forceinline__ Workspace<Config>& workspace(Shared<Config>& s) {
  static_assert(sizeof(Workspace<Config>) <= sizeof(s.partials));
  return *reinterpret_cast<Workspace<Config>*>(s.partials);
}

// A consumer warp's part of a tile: two units (8 weight rows each) and all tokens. For each 8 tokens b, a
// lane has in d[4b + i] its row of the first unit and in d[4b + 2 + i] that of the second, for token 8b + 2 *
// (lane % 4) + i.
struct WarpTile {
  uint32_t warpgroup = 0;
  uint32_t warp = 0;  // in the warpgroup
  uint32_t lane = 0;
  uint32_t first_token;  // of the tile: a row of the pass
  uint32_t end_token;
  uint32_t buffer;         // of the storers' look-ups
  uint32_t tile_half = 0;  // index of the half, in a wide tile

  __device__ __forceinline__ uint32_t row_of_unit() const { return lane / 4; }
  // A copy whose thread indices are read again from the special register. Values that a loop derives from
  // them are then not kept in registers outside the loop, where the sums leave few.
  __device__ __forceinline__ WarpTile reread_thread() const {
    WarpTile tile = *this;
    const uint32_t thread = ptx::thread_index();
    tile.warpgroup = thread / kWarpThreads / kWarpgroupWarps - kFirstConsumerWarp / kWarpgroupWarps;
    tile.warp = thread / kWarpThreads % kWarpgroupWarps;
    tile.lane = thread % kWarpThreads;
    return tile;
  }
  // First of the warp's two units in the tile, or in its half.
  __device__ __forceinline__ uint32_t unit() const {
    return (warpgroup * kWarpgroupWarps + warp) * kWarpUnits;
  }
  // Index of a token in the tile; `eight` is b.
  __device__ __forceinline__ uint32_t token(uint32_t eight, uint32_t i) const {
    return eight * 8 + lane % 4 * 2 + i;
  }
};

// --- derived from an instruction's operands (instructions/product/product.h)

// True if the two halves of a tile of 16 units may lie in different weight tensors, so that each is loaded in
// its own box.
template <HasProduct Op>
__device__ __forceinline__ bool has_halves_apart(const Op& op, const ProgramShape& program) {
  if constexpr (requires { tile_halves_apart(op, program); }) return tile_halves_apart(op, program);
  return false;
}
template <HasProduct Op>
__device__ __forceinline__ Units units_of(const Op& op, const ProgramShape& program) {
  if constexpr (matrices_of<Op>() == 2) return op.num_units > kPairUnits ? Units::kWidePairs : Units::kPairs;
  if (op.num_units <= kWarpgroupUnits) return Units::kHalf;
  return has_halves_apart(op, program) ? Units::kNeighboursApart : Units::kNeighbours;
}
template <HasProduct Op>
__device__ __forceinline__ Shape shape_of(const RecordBuffer& buffer, const Op& op,
                                          const ProgramShape& program) {
  const Product whole = product(op, program);
  const ProductInput input = input_of(buffer, op, program);
  Shape shape{.activations = input.activations,
              .squares = input.squares,
              .epsilon = input.epsilon,
              .first_row = op.first_row,
              .end_row = op.first_row + op.num_rows,
              .units = units_of(op, program),
              .cols = whole.cols,
              .logits_only = input.logits_only ? 1U : 0U,
              .adds = 0,
              .block_table = nullptr};
  if (whole.num_cols != whole.cols) take_columns(shape, whole.first_col, whole.num_cols);
  shape.format = weight_type_of(typed_weights<Op>(buffer, 0));
  if constexpr (requires { Op::kAddsTo; }) {
    shape.adds = 1;
    shape.parts = op.parts;
  }
  if constexpr (requires { &Op::block_table; })
    shape.block_table = tensor<&Op::block_table, const uint32_t>(buffer);
  return shape;
}

template <class Config, HasProduct Op>
__device__ __forceinline__ constexpr uint32_t most_units() {
  if constexpr (matrices_of<Op>() == 2) return (Config::kHasWideTiles ? kWideHalves : 1) * kPairUnits;
  return kTileUnits;
}
// True if the warpgroup has units to finish: a matrix's last tile may have fewer units.
__device__ __forceinline__ bool has_units(const WarpTile& tile, uint32_t units) {
  return tile.warpgroup * kWarpgroupUnits < units;
}

}  // namespace serval::device::tile_stream
