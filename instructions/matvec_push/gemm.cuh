// matvec_push in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/matvec_push/op.h"

namespace serval::device {

template <>
struct GemmOp<MatvecPush> {
  // A warpgroup's columns are of one slice.
  static __device__ bool in_range(const MatvecPush& op) {
    return op.ranks != 0 && op.ranks <= kMaxDevices && op.rank < op.ranks &&
           op.out_cols / op.ranks % gemm::kSquaresCols == 0 && op.first_unit % gemm::kWarpgroupUnits == 0 &&
           gemm::units_in_range(op.first_unit, op.num_units, gemm::kTileUnits, op.out_cols / kUnitRows) &&
           gemm::rows_in_range(op);
  }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const MatvecPush& op) {
    return gemm::product_shape(op, tensor<&MatvecPush::input, const std::byte>(buffer));
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const MatvecPush& op, uint32_t) {
    return gemm::weight_pages(program, op);
  }
  // Through shared memory, 16 tokens at a time: 8 threads push a token's 64 columns, 16 bytes each, and 128
  // in a row.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const MatvecPush& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    // Looked up once: for each block, it would be a trip to L2 that the block's stores wait for.
    const uint32_t width = op.out_cols / op.ranks,
                   col = op.first_unit * kUnitRows + tile.again().warpgroup * gemm::kSquaresCols,
                   owner = col / width;
    const PeerTensors partial = op.partial;
    auto* const to_tile = static_cast<float*>(role.launch.program.tensors[partial.on(owner).index]) +
                          size_t{tile.first_token} * op.out_cols + op.rank * width + (col - owner * width);
    const auto finish = [&](uint32_t block, const float* staged, const gemm::UnitOfToken& mine, bool exists) {
      if (!exists) return;
      const uint32_t piece = mine.unit, token = block * gemm::kStagedTokens + mine.token;
      float* const to = to_tile + size_t{token} * op.out_cols + piece * kPieceCols;
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t of_half = piece * kPieceCols + half * gemm::kSquaresCols / 2;
        *reinterpret_cast<float4*>(to + half * gemm::kSquaresCols / 2) = *reinterpret_cast<const float4*>(
            staged + gemm::staged_float(mine.token, of_half / kUnitRows, of_half % kUnitRows));
      }
    };
    gemm::for_staged<gemm::UnitOfToken>(role, tile, d, finish);
  }

 private:
  static constexpr uint32_t kPieceCols = 4;
};

}  // namespace serval::device
