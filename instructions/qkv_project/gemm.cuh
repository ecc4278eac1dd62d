// qkv_project in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/qkv_project/op.h"

namespace serval::device {

template <>
struct GemmOp<QkvProject> {
  static __device__ bool in_range(const QkvProject& op) {
    return gemm::units_in_range(op.first_unit, op.num_units, gemm::kTileUnits,
                                projected_cols(op) / kUnitRows) &&
           gemm::rows_in_range(op);
  }
  // Matrices of whole tiles share none; else a tile's halves may be of different matrices.
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const QkvProject& op) {
    return {
        .activations = tensor<&QkvProject::weighted, const std::byte>(buffer),
        .squares = tensor<&QkvProject::squares, const float>(buffer),
        .epsilon = op.epsilon,
        .image_rows = op.max_rows,
        .first_row = op.first_row,
        .end_row = op.first_row + op.num_rows,
        .units = fills_tiles(op, gemm::kTileUnits) ? gemm::Units::kNeighbours : gemm::Units::kNeighboursApart,
        .cols = op.hidden,
        .logits_only = 0,
        .adds = 0,
        .block_table = nullptr,
        .blocks_of_sequence = 0};
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const QkvProject& op, uint32_t half) {
    // A last tile of 8 units has nothing in its other half: it is brought again.
    const uint32_t unit = half * gemm::kWarpgroupUnits < op.num_units ? half * gemm::kWarpgroupUnits : 0;
    const ProjectedUnit u = projected_unit(op, op.first_unit + unit);
    return {gemm::tensor_map(program, u.matrix), u.index};
  }
  // Each thread finishes a unit's outputs of a token at a time.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const QkvProject& op,
                                                     const gemm::WarpTile& tile, const float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    const gemm::UnitOfToken mine(tile);
    const uint32_t unit = tile.warpgroup * gemm::kWarpgroupUnits + mine.unit;
    const float* scales = gemm::workspace(role.s).scales[tile.buffer] + mine.token;
    const uint32_t cols = projected_cols(op);
    float* const to =
        tensor<&QkvProject::projected, float>(*role.buffer) + (op.first_unit + unit) * kUnitRows;
    gemm::for_staged(role, tile, d, mine, [&](uint32_t block, const float* staged, bool exists) {
      if (!exists || unit >= op.num_units) return;
      const size_t row = tile.first_token + block * gemm::kStagedTokens + mine.token;
      const float scale = scales[block * gemm::kStagedTokens];
      float values[kUnitRows];
      gemm::load_unit(values, staged, mine.token, mine.unit);
#pragma unroll
      for (float& value : values) value *= scale;
      auto* const unit_of_row = reinterpret_cast<float4*>(to + row * cols);
      unit_of_row[0] = {values[0], values[1], values[2], values[3]};
      unit_of_row[1] = {values[4], values[5], values[6], values[7]};
    });
  }
};

}  // namespace serval::device
