#pragma once

#include "instructions/add_parts/op.h"
#include "instructions/common/operands.cuh"
#include "instructions/common/residual_piece.cuh"

namespace serval::device {

// 8 lanes process 64 columns of a row, a warp four rows.
template <>
struct DeviceOp<AddParts> : GroupOp {
  using Op = AddParts;

  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    constexpr uint32_t kUnits = kSquareColsOfTiles / kUnitRows;
    return op.num_parts >= 1 && op.num_parts <= kMaxColumnParts && op.first_unit % kUnits == 0 &&
           op.num_units % kUnits == 0 &&
           units_in_range(op.first_unit, op.num_units, op.out_cols / kUnitRows, op.out_cols / kUnitRows) &&
           rows_in_range(op, program);
  }
  static constexpr bool kStartsEarly = true;  // to load norms, and to find the computed rows

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    using Share = ShareOf<residual::PieceOf<Config::kHasE4M3>>;
    constexpr uint32_t kRows = kRowsAddedTogether;
    static_assert(kRows == kWarpThreads / residual::kPieceLanes);
    const uint32_t groups = op.num_units * kUnitRows / kSquareColsOfTiles;
    const uint32_t items = (op.num_rows + kRows - 1) / kRows * groups;
    const residual::TilePlace to{group.tensor<&Op::residual, float>(),
                                 group.tensor<&Op::norm, const uint16_t>(),
                                 group.tensor<&Op::weighted, std::byte>(),
                                 group.tensor<&Op::squares, float>(),
                                 group.shape.limits.rows,
                                 op.out_cols};
    // Items beyond the last one have no existing row.
    const auto piece = [&](uint32_t item) {
      const uint32_t rows = item / groups, cols = item - rows * groups;
      return Share(op, group, to, op.first_row + rows * kRows + group.lane / residual::kPieceLanes,
                   op.first_unit * kUnitRows + cols * kSquareColsOfTiles);
    };
    bool waited = false;
#pragma unroll 1
    for (uint32_t item = group.warp; item < items; item += 2 * kConsumerWarps) {
      Share one = piece(item), other = piece(item + kConsumerWarps);
      if (!waited) group.wait_inputs();
      waited = true;
      // All loads before the stores: the compiler does not move loads up across stores.
      one.load(op, group, to);
      other.load(op, group, to);
      one.add(op, group);
      other.add(op, group);
    }
  }

 private:
  static constexpr uint32_t kUnits = residual::Piece::kUnits;
  using Values = residual::Piece::Values;

  // A lane's share of 64 columns of a row, which it stores as a Stored.
  template <class Stored>
  class ShareOf {
   public:
    // Reads none of the inputs that need a wait.
    __device__ __forceinline__ ShareOf(const Op& op, const Group& group, const residual::TilePlace& to,
                                       uint32_t row, uint32_t first_col)
        : row_(row),
          col_(first_col + residual::piece_col(group.lane)),
          exists_(row < op.first_row + op.num_rows && row_is_computed(group.rows[row], op.logits_only)),
          to_(to, row, col_, group.lane % slab_image::kPiecesOfHalf) {}

    __device__ __forceinline__ void load(const Op& op, const Group& group, const residual::TilePlace& to) {
      if (!exists_) return;
      const size_t at = size_t{row_} * op.out_cols + col_;
      residual::load_piece(to.residual + at, sums_);
      residual::load_piece(group.tensor<&Op::part0, const float>() + at, parts_[0]);
      if (op.num_parts > 1) residual::load_piece(group.tensor<&Op::part1, const float>() + at, parts_[1]);
      if (op.num_parts > 2) residual::load_piece(group.tensor<&Op::part2, const float>() + at, parts_[2]);
      if (op.num_parts > 3) residual::load_piece(group.tensor<&Op::part3, const float>() + at, parts_[3]);
    }
    // Called by all lanes of the warp together.
    __device__ __forceinline__ void add(const Op& op, const Group& group) {
#pragma unroll
      for (uint32_t p = 0; p < kMaxColumnParts; ++p) {
        if (p + 1 < op.num_parts) add_flushed(sums_, parts_[p]);
        if (p + 1 == op.num_parts) residual::add_piece(parts_[p], sums_);
      }
      to_.store(sums_, exists_, group.lane);
    }

   private:
    // Adds as the copy engine does in GPU memory (epilogues::AddToResidual::add_part): subnormal numbers are
    // flushed to 0.
    static __device__ __forceinline__ void add_flushed(Values& sums, const Values& values) {
#pragma unroll
      for (uint32_t u = 0; u < kUnits; ++u) {
        sums[u].x = ptx::add_flushed(sums[u].x, values[u].x);
        sums[u].y = ptx::add_flushed(sums[u].y, values[u].y);
      }
    }

    uint32_t row_, col_;
    bool exists_;
    Stored to_;
    Values sums_ = {}, parts_[kMaxColumnParts] = {};
  };
};

}  // namespace serval::device
