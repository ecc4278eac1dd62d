// gate_up_silu in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/gate_up_silu/op.h"

namespace serval::device {

template <>
struct GemmOp<GateUpSilu> {
  static constexpr bool kHasWideTiles = true;
  static_assert(gemm::kPairUnits == kUnitsOfPairTile &&
                gemm::kWideHalves * gemm::kPairUnits == kUnitsOfWidePairTile);

  template <class Config>
  static __device__ bool in_range(const GateUpSilu& op) {
    constexpr uint32_t kMost = (Config::kHasWideTiles ? gemm::kWideHalves : 1) * gemm::kPairUnits;
    return op.num_units % gemm::kPairUnits == 0 &&
           gemm::units_in_range(op.first_unit, op.num_units, kMost, op.intermediate / kUnitRows) &&
           gemm::rows_in_range(op);
  }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const GateUpSilu& op) {
    return {.activations = tensor<&GateUpSilu::weighted, const std::byte>(buffer),
            .squares = tensor<&GateUpSilu::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .image_rows = op.max_rows,
            .first_row = op.first_row,
            .end_row = op.first_row + op.num_rows,
            .units = op.num_units > gemm::kPairUnits ? gemm::Units::kWidePairs : gemm::Units::kPairs,
            .cols = op.hidden,
            .logits_only = op.logits_only,
            .adds = 0,
            .block_table = nullptr,
            .blocks_of_sequence = 0};
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const GateUpSilu& op, uint32_t) {
    return {gemm::tensor_map(program, op.gate), op.first_unit};
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const GateUpSilu& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    gemm::store_silu(role, tile, tensor<&GateUpSilu::output, std::byte>(*role.buffer), op.max_rows,
                     op.intermediate, op.first_unit + tile.tile_half * gemm::kPairUnits, d);
  }
};

}  // namespace serval::device
