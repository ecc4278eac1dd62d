#pragma once

#include "instructions/matvec_residual/op.h"
#include "instructions/product/epilogues/residual.cuh"
#include "instructions/product/operands.cuh"

namespace serval::device {

template <>
struct ProductOp<MatvecResidual> {
  static __device__ bool tile_in_range(const MatvecResidual& op, const ProgramShape&) {
    return op.parts >= 1 && op.parts <= page_image::panels(op.in_cols);
  }
  template <class Role>
  static __device__ __forceinline__ epilogues::AddToResidual epilogue(const Role& role,
                                                                      const MatvecResidual& op) {
    return {.residual = tensor<&MatvecResidual::residual, float>(*role.buffer),
            .norm = tensor<&MatvecResidual::norm, const uint16_t>(*role.buffer),
            .weighted = tensor<&MatvecResidual::weighted, std::byte>(*role.buffer),
            .squares = tensor<&MatvecResidual::squares, float>(*role.buffer),
            .image_rows = role.s.shape.limits.rows,
            .cols = op.out_cols,
            .first_unit = op.first_unit,
            .num_units = op.num_units,
            .parts = op.parts,
            .map = tensor_map(role.launch.program, op.residual)};
  }
};

}  // namespace serval::device
