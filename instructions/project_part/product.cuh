#pragma once

#include "instructions/product/epilogues/sums.cuh"
#include "instructions/product/operands.cuh"
#include "instructions/project_part/op.h"

namespace serval::device {

template <>
struct ProductOp<ProjectPart> {
  static __device__ bool tile_in_range(const ProjectPart& op, const ProgramShape&) {
    return op.part < op.parts && op.parts <= page_image::panels(op.hidden);
  }
  template <class Role>
  static __device__ __forceinline__ epilogues::StoreSums epilogue(const Role& role, const ProjectPart& op) {
    const uint32_t cols = qkv_cols(role.s.shape.heads);
    return {.sums = tensor<&ProjectPart::sums, float>(*role.buffer) + op.part * cols,
            .cols = op.parts * cols,
            .first_unit = op.first_unit,
            .num_units = op.num_units};
  }
};

}  // namespace serval::device
