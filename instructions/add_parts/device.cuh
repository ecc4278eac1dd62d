#pragma once

#include "instructions/add_parts/op.h"
#include "instructions/common/gemm.cuh"

namespace serval::device {

// 8 lanes have 64 columns of a row, a warp four rows of them.
template <>
struct DeviceOp<AddParts> : GroupOp {
  using Op = AddParts;

  static __device__ bool in_range(const Op& op) {
    constexpr uint32_t kUnits = gemm::kSquaresCols / kUnitRows;
    return op.num_parts >= 1 && op.num_parts <= kMaxColumnParts && op.square_cols == gemm::kSquaresCols &&
           op.first_unit % kUnits == 0 && op.num_units % kUnits == 0 &&
           gemm::units_in_range(op.first_unit, op.num_units, op.out_cols / kUnitRows,
                                op.out_cols / kUnitRows) &&
           gemm::rows_in_range(op);
  }
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    constexpr uint32_t kRows = kWarpThreads / kLanes;  // of a warp
    const uint32_t groups = op.num_units * kUnitRows / gemm::kSquaresCols;
    const uint32_t items = (op.num_rows + kRows - 1) / kRows * groups;
#pragma unroll 1
    for (uint32_t item = group.warp; item < items; item += kConsumerWarps) {
      const uint32_t rows = item / groups, cols = item - rows * groups;
      add(op, group, op.first_row + rows * kRows + group.lane / kLanes,
          op.first_unit * kUnitRows + cols * gemm::kSquaresCols);
    }
  }

 private:
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kUnits = gemm::ResidualPiece::kUnits;
  using Values = gemm::ResidualPiece::Values;

  // Row `row`'s 64 columns from `first_col` on; the warp's lanes stay together.
  static __device__ __forceinline__ void add(const Op& op, const Group& group, uint32_t row,
                                             uint32_t first_col) {
    const uint32_t lane = group.lane % kLanes, piece = lane % slab_image::kPiecesOfHalf;
    const uint32_t col = first_col + lane / slab_image::kPiecesOfHalf * kUnits * kUnitRows + piece * 2;
    const bool exists = row < op.first_row + op.num_rows && is_computed(op, group.rows[row]);
    const gemm::ResidualPlace to{group.tensor<&Op::residual, float>(),
                                 group.tensor<&Op::norm, const uint16_t>(),
                                 group.tensor<&Op::weighted, std::byte>(),
                                 group.tensor<&Op::squares, float>(),
                                 op.max_rows,
                                 op.out_cols};
    Values parts[kMaxColumnParts] = {}, sums = {};
    if (exists) {
      const size_t at = size_t{row} * op.out_cols + col;
      load(to.residual + at, sums);
      load(group.tensor<&Op::part0, const float>() + at, parts[0]);
      if (op.num_parts > 1) load(group.tensor<&Op::part1, const float>() + at, parts[1]);
      if (op.num_parts > 2) load(group.tensor<&Op::part2, const float>() + at, parts[2]);
      if (op.num_parts > 3) load(group.tensor<&Op::part3, const float>() + at, parts[3]);
    }
#pragma unroll
    for (uint32_t p = 0; p < kMaxColumnParts; ++p) {
      if (p + 1 < op.num_parts) add_flushed(sums, parts[p]);
      if (p + 1 == op.num_parts) add_to(sums, parts[p]);
    }
    gemm::ResidualPiece(to, col, piece).store(sums, row, exists, group.lane);
  }
  static __device__ __forceinline__ bool is_computed(const Op& op, const PassRow& row) {
    const uint4 begin = ptx::load_relaxed(reinterpret_cast<const uint4*>(&row));  // active, wants_logits, …
    return begin.x != 0 && (op.logits_only == 0 || begin.y != 0);
  }
  static __device__ __forceinline__ void load(const float* from, Values& values) {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      values[u] = ptx::load_relaxed(reinterpret_cast<const float2*>(from + u * kUnitRows));
  }
  // As additions in GPU memory are (gemm::add_sums): subnormal numbers count as 0.
  static __device__ __forceinline__ void add_flushed(Values& sums, const Values& values) {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) {
      sums[u].x = ptx::add_flushed(sums[u].x, values[u].x);
      sums[u].y = ptx::add_flushed(sums[u].y, values[u].y);
    }
  }
  static __device__ __forceinline__ void add_to(Values& sums, const Values& values) {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) sums[u].x += values[u].x, sums[u].y += values[u].y;
  }
};

}  // namespace serval::device
