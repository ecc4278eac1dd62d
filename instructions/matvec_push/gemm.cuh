// matvec_push in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/matvec_push/op.h"

namespace serval::device {

template <>
struct GemmOp<MatvecPush> {
  // A warpgroup's columns are of one slice.
  static __device__ bool in_range(const MatvecPush& op) {
    return op.square_cols == gemm::kSquaresCols && op.ranks != 0 && op.ranks <= kMaxDevices &&
           op.rank < op.ranks && op.out_cols / op.ranks % gemm::kSquaresCols == 0 &&
           op.first_unit % gemm::kWarpgroupUnits == 0 &&
           gemm::units_in_range(op.first_unit, op.num_units, gemm::kTileUnits, op.out_cols / kUnitRows) &&
           gemm::rows_in_range(op);
  }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const MatvecPush& op) {
    return gemm::product_shape(op, tensor<&MatvecPush::input, const std::byte>(buffer));
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const MatvecPush& op, uint32_t) {
    return gemm::weight_pages(program, op);
  }
  // Through shared memory, 16 tokens at a time: 8 threads push a token's 64 columns, 16 bytes each.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const MatvecPush& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    // Looked up once: for each block, it would be a trip to L2 that the block's stores wait for.
    const uint32_t width = op.out_cols / op.ranks,
                   col = op.first_unit * kUnitRows + tile.again().warpgroup * gemm::kSquaresCols,
                   owner = col / width;
    const PeerTensors partial = op.partial;
    auto* const to_tile = static_cast<uint16_t*>(role.launch.program.tensors[partial.on(owner).index]) +
                          size_t{tile.first_token} * op.out_cols + op.rank * width + (col - owner * width);
    const auto finish = [&](uint32_t block, const float* staged, const gemm::UnitOfToken& mine, bool exists) {
      if (!exists) return;
      float values[kUnitRows];
      gemm::load_unit(values, staged, mine.token, mine.unit);
      const uint32_t token = block * gemm::kStagedTokens + mine.token;
      *reinterpret_cast<uint4*>(to_tile + size_t{token} * op.out_cols + mine.unit * kUnitRows) = {
          ptx::pack_bf16(values[0], values[1]), ptx::pack_bf16(values[2], values[3]),
          ptx::pack_bf16(values[4], values[5]), ptx::pack_bf16(values[6], values[7])};
    };
    gemm::for_staged<gemm::UnitOfToken>(role, tile, d, finish);
  }
};

}  // namespace serval::device
