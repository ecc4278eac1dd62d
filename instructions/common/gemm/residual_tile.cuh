// What finishes a tile whose products are added to the residual, and how the residual goes on from there.
#pragma once

#include <cstdint>

#include "instructions/common/gemm/shape.cuh"
#include "instructions/common/gemm/staging.cuh"
#include "instructions/common/residual.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::gemm {

// Where a residual tile goes.
struct ResidualPlace {
  float* residual;       // [rows, cols]
  const uint16_t* norm;  // [cols] bf16: weights of the next norm
  std::byte* weighted;   // a slab image of image_rows rows: residual × norm
  float* squares;        // [rows, cols / kSquaresCols]
  uint32_t image_rows;
  uint32_t cols;
};

// The residual of a tile comes through the ring, behind the tile's weights: pages of kPageTokens tokens and
// the tile's 128 columns, in boxes of 32 columns, swizzled by the copy engine (vm/device/tensor_maps.h).
inline constexpr uint32_t kBoxCols = 32;
inline constexpr uint32_t kBoxes = kTileUnits * kUnitRows / kBoxCols;
inline constexpr uint32_t kPageTokens = kPageBytes / (kBoxes * kBoxCols * sizeof(float));
inline constexpr uint32_t kBoxBytes = kPageTokens * kBoxCols * sizeof(float);
static_assert(kPageTokens == 2 * kStagedTokens);
__device__ __forceinline__ uint32_t residual_pages(uint32_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}
// In a page, of token `token` of it and column `col` of the tile.
__device__ __forceinline__ uint32_t residual_offset(uint32_t token, uint32_t col) {
  constexpr uint32_t kPieceFloats = slab_image::kPieceBytes / sizeof(float);
  const uint32_t piece = col % kBoxCols / kPieceFloats ^ token % slab_image::kSwizzledRows;
  return col / kBoxCols * kBoxBytes + token * (kBoxCols * static_cast<uint32_t>(sizeof(float))) +
         piece * slab_image::kPieceBytes + col % kPieceFloats * static_cast<uint32_t>(sizeof(float));
}

// Where a lane's sums of kPageTokens tokens of a tile lie in a page. One number: with another token or unit,
// the swizzle changes single bits of it.
class LanePlaces {
 public:
  static constexpr uint32_t kSums = kPageTokens / 2;

  __device__ __forceinline__ explicit LanePlaces(const WarpTile& part)
      : first_(residual_offset(part.token(0, 0), part.unit() * kUnitRows + part.row_of_unit())) {}
  // Of sum v, as in d.
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
// A lane's sums of tokens [32 n, 32 n + 32) of a tile are added to a page of the residual.
template <uint32_t kValues>
__device__ __forceinline__ void add_to_page(std::byte* page, const LanePlaces& places,
                                            const float (&d)[kValues], uint32_t n) {
#pragma unroll
  for (uint32_t first = 0; first < LanePlaces::kSums; first += kStagedValues) {
    // All loads before the first store: the compiler does not know that they are of other places.
    float before[kStagedValues];
#pragma unroll
    for (uint32_t v = 0; v < kStagedValues; ++v) before[v] = *places.in(page, first + v);
#pragma unroll
    for (uint32_t v = 0; v < kStagedValues; ++v)
      *places.in(page, first + v) = before[v] + d[n * LanePlaces::kSums + first + v];
  }
}
// The same of a part of the columns, put into a page that will be added to the residual: nothing is added to
// tokens that do not exist. positions: of the page's tokens.
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

// A piece of the complete residual: two columns of each of 4 neighbouring units, which 8 neighbouring lanes
// have of 64 columns of a token.
class ResidualPiece {
 public:
  static constexpr uint32_t kUnits = 4, kLanes = 8;
  using Values = float2[kUnits];

  // `row`: of the pass; `col`: the first of the piece's columns; `piece`: of half a slab's row.
  __device__ __forceinline__ ResidualPiece(const ResidualPlace& to, uint32_t row, uint32_t col,
                                           uint32_t piece)
      : residual_(to.residual + size_t{row} * to.cols + col),
        squares_(to.squares + size_t{row} * (to.cols / kSquaresCols) + col / kSquaresCols),
        cols_(to.cols) {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      norms_[u] = ptx::load_constant(reinterpret_cast<const uint32_t*>(to.norm + col + u * kUnitRows));
    const auto at = slab_image::place(to.cols, col - piece * 2);
    weighted_ = to.weighted + slab_image::piece_offset(to.image_rows, row, at.slab, at.piece + piece);
  }

  // Goes so many rows on: a multiple of slab_image::kSwizzledRows, so that the swizzle stays.
  __device__ __forceinline__ void advance(uint32_t rows) {
    residual_ += size_t{rows} * cols_;
    squares_ += size_t{rows} * (cols_ / kSquaresCols);
    weighted_ += rows * slab_image::kRowBytes;
  }
  // What the next readers need: of the piece, and of the 64 columns. The warp's lanes stay together.
  struct Weighed {
    uint4 words;
    float squares;
  };
  __device__ __forceinline__ Weighed weigh(const Values& values) const {
    uint32_t words[kUnits];
    float squares[kUnits];
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) {
      squares[u] = __fmul_rn(values[u].x, values[u].x) + __fmul_rn(values[u].y, values[u].y);
      words[u] =
          ptx::pack_bf16(values[u].x * ptx::bf16_low(norms_[u]), values[u].y * ptx::bf16_high(norms_[u]));
    }
    return {{words[0], words[1], words[2], words[3]}, add_squares(squares)};
  }
  __device__ __forceinline__ void store_residual(const Values& values) const {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      ptx::store_relaxed(reinterpret_cast<float2*>(residual_ + u * kUnitRows), values[u]);
  }
  // Without the squares: in the tensor of the piece's place, or so many bytes further on, in another rank's.
  __device__ __forceinline__ void store_words(const Weighed& values, int64_t further = 0) const {
    *reinterpret_cast<uint4*>(weighted_ + further) = values.words;
  }
  __device__ __forceinline__ void store(const Values& values, bool exists, uint32_t lane) const {
    const Weighed weighed = weigh(values);
    if (!exists) return;
    store_residual(values);
    store_words(weighed);
    if (lane % kLanes == 0) ptx::store_relaxed(squares_, weighed.squares);
  }

 private:
  // The sum of a token's squares, of which 8 lanes have two columns of 4 units each, added as a tree of
  // neighbouring columns: what stores a unit at a time adds up the same way (residual.cuh).
  static __device__ __forceinline__ float add_squares(const float (&squares)[kUnits]) {
    static_assert(kUnits == 4 && kLanes == 8);
    const uint32_t lane = ptx::thread_index() % kWarpThreads;
    const auto swap = [](float give, uint32_t lanes) { return __shfl_xor_sync(kAllLanes, give, lanes); };
    // Neighbours halve their units twice: of 4 lanes, lane l then has all columns of unit 2 (l mod 2) + l
    // / 2.
    const bool upper = lane % 2 != 0, second = lane / 2 % 2 != 0;
    const float first = (upper ? squares[2] : squares[0]) + swap(upper ? squares[0] : squares[2], 1);
    const float next = (upper ? squares[3] : squares[1]) + swap(upper ? squares[1] : squares[3], 1);
    float sum = (second ? next : first) + swap(second ? first : next, 2);
    sum += swap(sum, 2);
    sum += swap(sum, 1);
    return sum + swap(sum, 4);
  }

  float* residual_;
  float* squares_;
  std::byte* weighted_;
  uint32_t cols_;
  uint32_t norms_[kUnits];
};

// Where 8 neighbouring lanes have 64 columns of a row: the first column of the lane's piece.
inline constexpr uint32_t kPieceLanes = ResidualPiece::kLanes;
__device__ __forceinline__ uint32_t piece_col(uint32_t lane) {
  return lane % kPieceLanes / slab_image::kPiecesOfHalf * ResidualPiece::kUnits * kUnitRows +
         lane % slab_image::kPiecesOfHalf * 2;
}
__device__ __forceinline__ void load_piece(const float* from, ResidualPiece::Values& values) {
#pragma unroll
  for (uint32_t u = 0; u < ResidualPiece::kUnits; ++u)
    values[u] = ptx::load_relaxed(reinterpret_cast<const float2*>(from + u * kUnitRows));
}
__device__ __forceinline__ void add_piece(const ResidualPiece::Values& values, ResidualPiece::Values& sums) {
#pragma unroll
  for (uint32_t u = 0; u < ResidualPiece::kUnits; ++u) sums[u].x += values[u].x, sums[u].y += values[u].y;
}
__device__ __forceinline__ bool row_is_computed(const PassRow& row, uint32_t logits_only) {
  const uint4 begin = ptx::load_relaxed(reinterpret_cast<const uint4*>(&row));  // active, wants_logits, …
  return begin.x != 0 && (logits_only == 0 || begin.y != 0);
}

// Pages that code goes through without a loop.
template <class Config>
constexpr uint32_t pages_of_round() {
  const uint32_t pages = (Config::kTileTokens + kPageTokens - 1) / kPageTokens;
  return pages < kRoundPages ? pages : kRoundPages;
}

// residual += d, with what its next readers need. place(): the ResidualPlace. first_unit: of the tile, in the
// matrix; a warpgroup without units only lets the pages go.
template <class Role, class Place, uint32_t kValues>
__device__ __forceinline__ void add_to_residual(Role& role, const WarpTile& tile, const Place& place,
                                                uint32_t first_unit, uint32_t units, float (&d)[kValues]) {
  using Config = typename Role::Config;
  constexpr uint32_t kHalfBytes = kStagedTokens * kBoxCols * sizeof(float);
  constexpr uint32_t kUnitBytes = kUnitRows * sizeof(float);
  const WarpTile part = tile.again();
  const bool has = has_units(part, units);
  const PieceOfRow mine(part);
  const uint32_t col =
      (part.warpgroup * kWarpgroupUnits + mine.group * ResidualPiece::kUnits) * kUnitRows + mine.piece * 2;
  ResidualPiece piece(place(), part.first_token + mine.token, first_unit * kUnitRows + (has ? col : 0),
                      mine.piece);
  const uint32_t* positions = workspace(role.s).positions[part.buffer] + mine.token;
  const LanePlaces places(part);
  // Another unit is two other bits of a place, swizzled or not.
  const uint32_t from = residual_offset(mine.token, col);
  constexpr uint32_t kRound = pages_of_round<Config>();
#pragma unroll 1
  for (uint32_t row = part.first_token; row < part.end_token; row += kRound * kPageTokens) {
#pragma unroll
    for (uint32_t page = 0; page < kRound; ++page) {
      if (row + page * kPageTokens >= part.end_token) break;
      role.wait_page(role.next_page);
      std::byte* residual = role.s.ring[role.next_page % Config::kRingPages];
      if (has) add_to_page(residual, places, d, page);
      role.sync_warpgroup();
      if (has) {
        ResidualPiece::Values values[2];
        bool exists[2];
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
          exists[half] = positions[page * kPageTokens + half * kStagedTokens] != kNoToken;
#pragma unroll
          for (uint32_t u = 0; u < ResidualPiece::kUnits; ++u)
            values[half][u] =
                *reinterpret_cast<const float2*>(residual + (from ^ u * kUnitBytes) + half * kHalfBytes);
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

// residual += the sums of a part that is not the last, by the copy engine, out of pages that the loader lends
// (Stream::lend_pages()), which takes it that the sums are added when the last page comes back. What is added
// to a place comes from one thread, part after part. map: of the residual; first_col: of the tile.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void add_sums(Role& role, const WarpTile& tile, const std::byte* map,
                                         uint32_t first_col, uint32_t units, float (&d)[kValues]) {
  using Config = typename Role::Config;
  constexpr uint32_t kBoxesOfWarpgroup = kWarpgroupUnits * kUnitRows / kBoxCols;
  const WarpTile part = tile.again();
  const bool has = has_units(part, units);
  const uint32_t* positions = workspace(role.s).positions[part.buffer];
  const LanePlaces places(part);
  const bool asks = has && role.leads_warpgroup();
  if (asks) ptx::fence_proxy_async_global();  // the inputs are there
  constexpr uint32_t kRound = pages_of_round<Config>();
#pragma unroll 1
  for (uint32_t first = part.first_token; first < part.end_token; first += kRound * kPageTokens) {
#pragma unroll
    for (uint32_t page = 0; page < kRound; ++page) {
      const uint32_t row = first + page * kPageTokens;
      if (row >= part.end_token) break;
      role.wait_page(role.next_page);
      std::byte* sums = role.s.ring[role.next_page % Config::kRingPages];
      if (has) put_in_page(sums, places, part, d, page, positions + page * kPageTokens);
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

}  // namespace serval::device::gemm
