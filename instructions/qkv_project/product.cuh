#pragma once

#include "instructions/product/epilogues/sums.cuh"
#include "instructions/product/operands.cuh"
#include "instructions/qkv_project/op.h"

namespace serval::device {

template <>
struct ProductOp<QkvProject> {
  template <class Role>
  static __device__ __forceinline__ epilogues::StoreScaledSums epilogue(const Role& role,
                                                                        const QkvProject& op) {
    return {.sums = tensor<&QkvProject::projected, float>(*role.buffer),
            .cols = qkv_cols(role.s.shape.heads),
            .first_unit = op.first_unit,
            .num_units = op.num_units};
  }
};

}  // namespace serval::device
