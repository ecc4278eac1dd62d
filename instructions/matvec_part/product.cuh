#pragma once

#include "instructions/matvec_part/op.h"
#include "instructions/product/epilogues/sums.cuh"
#include "instructions/product/operands.cuh"

namespace serval::device {

template <>
struct ProductOp<MatvecPart> {
  static __device__ bool tile_in_range(const MatvecPart& op, const ProgramShape&) {
    return op.num_cols != 0 && op.first_col < op.in_cols && op.num_cols <= op.in_cols - op.first_col &&
           op.first_col % page_image::kPanelCols == 0;
  }
  template <class Role>
  static __device__ __forceinline__ epilogues::StoreSums epilogue(const Role& role, const MatvecPart& op) {
    return {.sums = tensor<&MatvecPart::sums, float>(*role.buffer),
            .cols = op.out_cols,
            .first_unit = op.first_unit,
            .num_units = op.num_units};
  }
};

}  // namespace serval::device
