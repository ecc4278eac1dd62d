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
    return {.activations = tensor<&QkvProject::weighted, const std::byte>(buffer),
            .squares = tensor<&QkvProject::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .image_rows = op.max_rows,
            .first_row = op.first_row,
            .end_row = op.first_row + op.num_rows,
            .units = op.num_units > gemm::kWarpgroupUnits && !fills_tiles(op, gemm::kTileUnits)
                         ? gemm::Units::kNeighboursApart
                         : gemm::neighbours(op.num_units),
            .cols = op.hidden,
            .logits_only = 0,
            .adds = 0,
            .block_table = nullptr,
            .blocks_of_sequence = 0};
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const QkvProject& op, uint32_t half) {
    const ProjectedUnit u = projected_unit(op, op.first_unit + half * gemm::kWarpgroupUnits);
    const bool halves = op.num_units <= gemm::kWarpgroupUnits || !fills_tiles(op, gemm::kTileUnits);
    return {gemm::tensor_map(program, u.matrix, halves), u.index};
  }
  // Each thread finishes a unit's outputs of a token at a time.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const QkvProject& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    const auto finish = [&](uint32_t block, const float* staged, const gemm::UnitOfToken& mine, bool exists) {
      const uint32_t unit = mine.warpgroup * gemm::kWarpgroupUnits + mine.unit;
      if (!exists || unit >= op.num_units) return;
      const uint32_t token = block * gemm::kStagedTokens + mine.token;
      const float scale = gemm::workspace(role.s).scales[tile.buffer][token];
      float values[kUnitRows];
      gemm::load_unit(values, staged, mine.token, mine.unit);
#pragma unroll
      for (float& value : values) value *= scale;
      auto* const to = reinterpret_cast<float4*>(tensor<&QkvProject::projected, float>(*role.buffer) +
                                                 size_t{tile.first_token + token} * projected_cols(op) +
                                                 (op.first_unit + unit) * kUnitRows);
      to[0] = {values[0], values[1], values[2], values[3]};
      to[1] = {values[4], values[5], values[6], values[7]};
    };
    gemm::for_staged<gemm::UnitOfToken>(role, tile, d, finish);
  }
};

}  // namespace serval::device
