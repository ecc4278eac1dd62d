// Writes the residual stream on the GPU in programs of tiles (instructions/common/residual.h): 8 lanes hold
// 64 columns of a row.
#pragma once

#include <cstdint>

#include "instructions/common/residual.h"
#include "vm/device/typed_address.cuh"
#include "vm/layout/slab_image.h"
#include "vm/layout/units.h"
#include "vm/ptx/ptx.cuh"
#include "vm/warp.h"

namespace serval::device::residual {

// Destination of rows of the residual in programs of tiles.
struct TilePlace {
  float* residual;       // [rows, cols]
  const uint16_t* norm;  // [cols] bf16: weights of the next norm
  std::byte* weighted;   // a slab image of image_rows rows, with its type: residual × norm
  float* squares;        // [rows, cols / kSquareColsOfTiles]
  uint32_t image_rows;
  uint32_t cols;
};

// A lane's piece of the complete residual: two columns of each of 4 neighbouring units. 8 consecutive lanes
// hold 64 columns of a token. kTyped: the kernel may store fp16 (vm/device/typed_address.h).
template <bool kTyped>
class PieceOf {
 public:
  static constexpr uint32_t kUnits = 4, kLanes = 8;
  using Values = float2[kUnits];

  // `row`: index in the pass; `col`: the piece's first column; `piece`: index in its half of a slab's row.
  __device__ __forceinline__ PieceOf(const TilePlace& to, uint32_t row, uint32_t col, uint32_t piece)
      : residual_(to.residual + size_t{row} * to.cols + col),
        squares_(to.squares + size_t{row} * (to.cols / kSquareColsOfTiles) + col / kSquareColsOfTiles),
        cols_(to.cols) {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      norms_[u] = ptx::load_constant(reinterpret_cast<const uint32_t*>(to.norm + col + u * kUnitRows));
    const auto at = slab_image::place(to.cols, col - piece * 2);
    weighted_ = to.weighted + slab_image::piece_offset(to.image_rows, row, at.slab, at.piece + piece);
  }

  // Moves on by `rows` rows, a multiple of slab_image::kSwizzledRows, so that the swizzle stays the same.
  __device__ __forceinline__ void advance(uint32_t rows) {
    residual_ += size_t{rows} * cols_;
    squares_ += size_t{rows} * (cols_ / kSquareColsOfTiles);
    weighted_ += rows * slab_image::kRowBytes;
  }
  // Input of the next product: the piece times the norm's weights, and the sum of squares of the 64 columns.
  // All lanes of the warp call next_input() together.
  struct NextInput {
    uint4 words;
    float squares;
  };
  __device__ __forceinline__ NextInput next_input(const Values& values) const {
    uint32_t words[kUnits];
    float squares[kUnits];
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) {
      squares[u] = __fmul_rn(values[u].x, values[u].x) + __fmul_rn(values[u].y, values[u].y);
      const float low = values[u].x * ptx::bf16_low(norms_[u]),
                  high = values[u].y * ptx::bf16_high(norms_[u]);
      words[u] = kTyped ? pack_as(weighted_, low, high) : ptx::pack_bf16(low, high);
    }
    return {{words[0], words[1], words[2], words[3]}, add_squares(squares)};
  }
  __device__ __forceinline__ void store_residual(const Values& values) const {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      ptx::store_relaxed(reinterpret_cast<float2*>(residual_ + u * kUnitRows), values[u]);
  }
  // Stores the words without the squares, in this rank's tensor or, `further` bytes away, in another rank's.
  __device__ __forceinline__ void store_words(const NextInput& values, int64_t further = 0) const {
    *reinterpret_cast<uint4*>((kTyped ? without_type(weighted_) : weighted_) + further) = values.words;
  }
  __device__ __forceinline__ void store(const Values& values, bool exists, uint32_t lane) const {
    const NextInput next = next_input(values);
    if (!exists) return;
    store_residual(values);
    store_words(next);
    if (lane % kLanes == 0) ptx::store_relaxed(squares_, next.squares);
  }

 private:
  // The sum of a token's squares, added as a tree of neighbouring columns; 8 lanes hold two columns of 4
  // units each. Code that stores a unit at a time (residual.cuh) adds in the same order.
  static __device__ __forceinline__ float add_squares(const float (&squares)[kUnits]) {
    static_assert(kUnits == 4 && kLanes == 8);
    const uint32_t lane = ptx::thread_index() % kWarpThreads;
    const auto swap = [](float give, uint32_t lanes) { return __shfl_xor_sync(kAllLanes, give, lanes); };
    // Exchanges units with neighbours twice: then lane l of 4 has all columns of unit 2 (l mod 2) + l / 2.
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
  std::byte* weighted_;  // with its type
  uint32_t cols_;
  uint32_t norms_[kUnits];
};
using Piece = PieceOf<false>;

// First column of the lane's piece, where 8 consecutive lanes hold 64 columns of a row.
inline constexpr uint32_t kPieceLanes = Piece::kLanes;
__device__ __forceinline__ uint32_t piece_col(uint32_t lane) {
  return lane % kPieceLanes / slab_image::kPiecesOfHalf * Piece::kUnits * kUnitRows +
         lane % slab_image::kPiecesOfHalf * 2;
}
__device__ __forceinline__ void load_piece(const float* from, Piece::Values& values) {
#pragma unroll
  for (uint32_t u = 0; u < Piece::kUnits; ++u)
    values[u] = ptx::load_relaxed(reinterpret_cast<const float2*>(from + u * kUnitRows));
}
__device__ __forceinline__ void add_piece(const Piece::Values& values, Piece::Values& sums) {
#pragma unroll
  for (uint32_t u = 0; u < Piece::kUnits; ++u) sums[u].x += values[u].x, sums[u].y += values[u].y;
}

}  // namespace serval::device::residual
