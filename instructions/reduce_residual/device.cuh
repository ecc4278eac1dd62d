#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/common/residual.cuh"
#include "instructions/reduce_residual/op.h"
#include "vm/device/op.cuh"
#include "vm/ptx/memory.cuh"

namespace serval::device {

// In kernels with a table of rows a thread has a column of a row, eight neighbouring ones a unit. In kernels
// of GEMMs 8 lanes have 64 columns of a row, a warp four rows of them, as in add_parts.
template <>
struct DeviceOp<ReduceResidual> : GroupOp {
  using Op = ReduceResidual;
  static constexpr bool kStartsEarly = true;  // to find where its results go

  template <class Config>
  static __device__ bool in_range(const Op& op) {
    const uint32_t units = op.out_cols / kUnitRows;
    const bool good = op.ranks != 0 && op.ranks <= kMaxDevices && op.rank < op.ranks &&
                      op.first_unit < units && op.num_units <= units - op.first_unit;
    constexpr uint32_t kGroupUnits = kSquareColsOfGemm / kUnitRows;
    if constexpr (Config::kMultipliesTiles) {
      return good && op.square_cols == kSquareColsOfGemm && op.first_unit % kGroupUnits == 0 &&
             op.num_units % kGroupUnits == 0 && gemm::rows_in_range(op);
    }
    return good && op.square_cols == kSquareColsOfMatvec && op.max_rows <= kTableRows;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    if constexpr (Config::kMultipliesTiles)
      run_pieces(op, group);
    else
      run_columns(op, group);
  }

 private:
  static __device__ __forceinline__ void run_columns(const Op& op, const Group& group) {
    const Places to(op, group);
    const uint32_t cols = op.num_units * kUnitRows;
    const uint32_t unit_lanes = ((1u << kUnitRows) - 1) << (group.lane & ~(kUnitRows - 1));
    const PassRow& row = group.rows[group.lane % kTableRows];
    const bool of_instance = group.lane - op.first_row < op.num_rows && group.lane < kTableRows;
    const uint32_t computed =
        __ballot_sync(~0u, of_instance && contains(computed_rows(op.logits_only != 0), row));
    // The first columns of a thread's: of most instances all of them.
    const uint16_t first_norm = to.norm_of(group.thread % cols);
    group.wait_inputs();
    const uint32_t items = (kWarpThreads - __clz(static_cast<int>(computed))) * cols;
#pragma unroll 1
    for (uint32_t item = group.thread; item < items; item += kGroupThreads) {
      const uint32_t r = item / cols, at = item - r * cols;
      const uint16_t norm = item == group.thread ? first_norm : to.norm_of(at);
      if ((computed >> r & 1) != 0) add(op, to, r, at, norm, unit_lanes);
    }
  }

  // Where things of the instance's columns lie.
  struct Places {
    const float* partial;
    const uint16_t* norm;
    float* residual;
    std::byte* weighted[kMaxDevices];  // on each rank
    float* squares[kMaxDevices];

    __device__ __forceinline__ Places(const Op& op, const Group& group)
        : partial(group.tensor<&Op::partial, const float>() + partial_col(op, 0)),
          norm(group.tensor<&Op::norm, const uint16_t>() + op.first_unit * kUnitRows),
          residual(group.tensor<&Op::residual, float>()) {
#pragma unroll
      for (uint32_t k = 0; k < kMaxDevices; ++k) {
        if (k >= op.ranks) continue;
        weighted[k] = group.tensor_on<std::byte>(op.weighted, k);
        squares[k] = group.tensor_on<float>(op.squares, k);
      }
    }
    __device__ __forceinline__ uint16_t norm_of(uint32_t col) const {
      return __ldg(norm + col);
    }
  };

  // Column `at` of the instance's, of row `row`.
  static __device__ __forceinline__ void add(const Op& op, const Places& to, uint32_t row, uint32_t at,
                                             uint16_t norm, uint32_t unit_lanes) {
    const uint32_t width = op.out_cols / op.ranks, col = op.first_unit * kUnitRows + at;
    const float* partial = to.partial + size_t{row} * op.out_cols + at;
    float* residual = to.residual + size_t{row} * op.out_cols + col;
    const float before = op.begins != 0 ? 0.0F : ptx::load_relaxed(residual);
    float terms[kMaxDevices];
#pragma unroll
    for (uint32_t k = 0; k < kMaxDevices; ++k) {
      if (k < op.ranks) terms[k] = ptx::load_relaxed(partial + k * width);
    }
    float sum = terms[0];
#pragma unroll
    for (uint32_t k = 1; k < kMaxDevices; ++k) {
      if (k < op.ranks) sum += terms[k];
    }
    const float value = sum + before;
    const residual::Weighed values = residual::weigh(value, norm, unit_lanes);
#pragma unroll
    for (uint32_t k = 0; k < kMaxDevices; ++k) {
      if (k < op.ranks)
        residual::store_weighed({nullptr, to.weighted[k], to.squares[k], op.out_cols}, row, col, values);
    }
    ptx::store_relaxed(residual, value);
  }

  using Values = gemm::ResidualPiece::Values;

  static __device__ __forceinline__ void run_pieces(const Op& op, const Group& group) {
    constexpr uint32_t kRows = kWarpThreads / gemm::kPieceLanes;  // of a warp
    group.wait_inputs();
    const uint32_t groups = op.num_units * kUnitRows / gemm::kSquaresCols;
    const uint32_t items = (op.num_rows + kRows - 1) / kRows * groups;
#pragma unroll 1
    for (uint32_t item = group.warp; item < items; item += kConsumerWarps) {
      const uint32_t rows = item / groups, cols = item - rows * groups;
      add_pieces(op, group, op.first_row + rows * kRows + group.lane / gemm::kPieceLanes,
                 op.first_unit * kUnitRows + cols * gemm::kSquaresCols);
    }
  }
  // Row `row`'s 64 columns from `first_col` on; the warp's lanes stay together.
  static __device__ __forceinline__ void add_pieces(const Op& op, const Group& group, uint32_t row,
                                                    uint32_t first_col) {
    const uint32_t col = first_col + gemm::piece_col(group.lane), width = op.out_cols / op.ranks;
    const bool exists =
        row < op.first_row + op.num_rows && gemm::row_is_computed(group.rows[row], op.logits_only);
    Values before = {}, sums = {};
    if (exists) {
      if (op.begins == 0)
        gemm::load_piece(group.tensor<&Op::residual, const float>() + size_t{row} * op.out_cols + col,
                         before);
      const float* partial =
          group.tensor<&Op::partial, const float>() + size_t{row} * op.out_cols + col % width;
      gemm::load_piece(partial, sums);
#pragma unroll 1
      for (uint32_t k = 1; k < op.ranks; ++k) {
        Values more;
        gemm::load_piece(partial + k * width, more);
        gemm::add_piece(more, sums);
      }
      gemm::add_piece(before, sums);
    }
    const gemm::ResidualPlace place{.residual = group.tensor<&Op::residual, float>(),
                                    .norm = group.tensor<&Op::norm, const uint16_t>(),
                                    .weighted = nullptr,
                                    .squares = nullptr,
                                    .image_rows = op.max_rows,
                                    .cols = op.out_cols};
#pragma unroll 1
    for (uint32_t k = 0; k < op.ranks; ++k) {
      gemm::ResidualPlace to = place;
      to.weighted = group.tensor_on<std::byte>(op.weighted, k);
      to.squares = group.tensor_on<float>(op.squares, k);
      const gemm::ResidualPiece mine(to, row, col, group.lane % slab_image::kPiecesOfHalf);
      if (k == op.rank)
        mine.store(sums, exists, group.lane);
      else
        mine.store<false>(sums, exists, group.lane);
    }
  }
};

}  // namespace serval::device
