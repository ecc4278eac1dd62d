#pragma once

#include "instructions/gate_up_silu/op.h"
#include "instructions/product/epilogues/silu.cuh"
#include "instructions/product/operands.cuh"

namespace serval::device {

template <>
struct ProductOp<GateUpSilu> {
  static_assert(tile_stream::kPairUnits == kUnitsOfPairTile &&
                tile_stream::kWideHalves * tile_stream::kPairUnits == kUnitsOfWidePairTile);

  static __device__ bool tile_in_range(const GateUpSilu& op, const ProgramShape&) {
    return op.num_units % tile_stream::kPairUnits == 0;
  }
  template <class Role>
  static __device__ __forceinline__ epilogues::SiluProduct epilogue(const Role& role, const GateUpSilu& op) {
    return {.output = tensor<&GateUpSilu::output, std::byte>(*role.buffer),
            .image_rows = role.s.shape.limits.rows,
            .cols = op.intermediate,
            .first_unit = op.first_unit};
  }
};

}  // namespace serval::device
